import type { Act } from '../act.ts';
import { observeSale, salePromises } from './sales.ts';

const SEATS = ['A1', 'A2', 'A3', 'A4', 'A5'];

/** Three workers, three customers for every seat, all at once. */
export const contention: Act = {
  title: 'Contention',
  promises: salePromises(),
  async play(stage) {
    stage.tell(`ana, ben and cleo want ${SEATS.join(', ')}, each through another worker`);
    await stage.sell(SEATS, ['ana', 'ben', 'cleo']);
    await observeSale(stage, SEATS);
  },
};
