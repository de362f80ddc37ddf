import type { Act } from '../act.ts';
import { observeSale, salePromises, sellDuring } from './sales.ts';

const FIRST_SEATS = ['B1', 'B2', 'B3'];
const LATER_SEATS = ['B4', 'B5'];
const CUSTOMERS = ['dan', 'eve', 'fay'];

/** A Redis server dies in the middle of the sale. It stays dead for the next act. */
export const nodeKilled: Act = {
  title: 'A server is killed',
  promises: salePromises(),
  needsFaults: true,
  async play(stage) {
    await sellDuring(stage, FIRST_SEATS, CUSTOMERS, async () => {
      await stage.cluster.node(1).kill();
      stage.tell('4 of 5 servers are left; a lock needs 3');
    });
    await stage.sell(LATER_SEATS, CUSTOMERS);
    await observeSale(stage, [...FIRST_SEATS, ...LATER_SEATS]);
  },
};
