import { describe, expect, it } from '@jest/globals';
import { exitCodeOf, playActs, unsettled, wronglySold, type Act } from '../show/acts.ts';
import { ShowLog } from '../show/log.ts';
import type { Stage } from '../show/stage.ts';

/** `npm start` must fail when a promise was not kept. */

const paid = (seat: string, customer: string, refunded = false) => ({ seat, customer, refunded });
const RIGHT = {
  tickets: [
    { seat: 'A1', customer: 'ana' },
    { seat: 'A2', customer: 'ben' },
  ],
  payments: [paid('A1', 'ana'), paid('A2', 'cleo', true), paid('A2', 'ben')],
};

describe('the acts of the show', () => {
  it('find nothing wrong in books in which every seat has one buyer, and the money fits', () => {
    expect([wronglySold(RIGHT, ['A1', 'A2']), unsettled(RIGHT)]).toEqual([[], []]);
  });

  it('find a seat that is not sold, and one that is sold twice', () => {
    const tickets = [...RIGHT.tickets, { seat: 'A1', customer: 'dan' }];
    expect(wronglySold({ ...RIGHT, tickets }, ['A1', 'A3'])).toEqual([
      'A1 is sold to ana and dan',
      'A3 is sold to nobody',
    ]);
  });

  it('find who paid and has no ticket, and who has one for nothing', () => {
    const payments = [paid('A1', 'ana', true), paid('A2', 'cleo'), paid('A2', 'ben')];
    expect(unsettled({ ...RIGHT, payments })).toEqual([
      'cleo for A2: paid, and has no ticket',
      'ana for A1: has not paid',
    ]);
  });

  it('fail the show when a promise is broken, or an act breaks off; the next one is played all the same', async () => {
    const stage = { log: new ShowLog() } as Stage;
    const act = (play: Act['play']): Act => ({ title: 'an act', play });
    const kept = act(async (_, observe) => observe('a promise', true, 'seen'));
    const broken = act(async (_, observe) => observe('a promise', false, 'not seen'));
    const brokenOff = act(() => Promise.reject(new Error('worker 1 ended')));
    const findings = await playActs(stage, [brokenOff, kept]);
    expect(findings.map(({ observed }) => observed)).toEqual(['worker 1 ended', 'seen']);
    expect(exitCodeOf(findings)).toBe(1);
    expect(exitCodeOf(await playActs(stage, [kept, broken]))).toBe(1);
    expect(exitCodeOf(await playActs(stage, [kept]))).toBe(0);
  });
});
