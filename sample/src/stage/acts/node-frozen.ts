import type { Act } from '../act.ts';
import { observeSale, salePromises, sellDuring } from './sales.ts';

const FIRST_SEATS = ['C1', 'C2', 'C3'];
const LATER_SEATS = ['C4', 'C5'];
const CUSTOMERS = ['gil', 'hal', 'ina'];

/** Node that is still dead, a second one that stops answering: a bare quorum is left. Then both come back. */
export const nodeFrozen: Act = {
  title: 'And another one is frozen',
  promises: salePromises(),
  needsFaults: true,
  async play(stage) {
    try {
      await sellDuring(stage, FIRST_SEATS, CUSTOMERS, async () => {
        await stage.cluster.node(2).freeze();
        stage.tell(
          'server 1 is dead, server 2 takes requests and says nothing: 3 of 5 servers are left',
        );
      });
      await stage.sell(LATER_SEATS, CUSTOMERS);
      await observeSale(stage, [...FIRST_SEATS, ...LATER_SEATS]);
    } finally {
      await stage.cluster.healAll();
    }
    stage.tell('server 1 came back without its data: it gives locks again after the restart guard');
  },
};
