import type { Act } from '../act.ts';
import { observeSale, salePromises } from './sales.ts';

const FIRST_SEATS = ['B1', 'B2', 'B3'];
const LATER_SEATS = ['B4', 'B5'];

/** A Redis server dies in the middle of the sale. It stays dead for the next act. */
export const nodeKilled: Act = {
  title: 'A node is killed',
  promises: salePromises(),
  needsFaults: true,
  showsEveryStep: false,
  async play(stage) {
    const underWay = stage.log.next(
      (event) => event.type === 'step' && event.step.name === 'paid',
      'nobody has paid',
    );
    const sale = stage.sell(FIRST_SEATS, ['dan', 'eve', 'fay']);
    await Promise.race([underWay, sale]);
    await stage.cluster.node(1).kill();
    stage.tell('4 of 5 nodes are left; a lock needs 3 votes');
    await sale;
    await stage.sell(LATER_SEATS, ['dan', 'eve', 'fay']);
    await observeSale(stage, [...FIRST_SEATS, ...LATER_SEATS]);
  },
};
