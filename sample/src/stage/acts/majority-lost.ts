import type { Act } from '../act.ts';
import type { Stage } from '../stage.ts';
import { observeSale, salePromises } from './sales.ts';

const SEATS = ['E1', 'E2', 'E3'];

/** Three of five nodes are gone: nothing is locked, and the error says why. Then they come back. */
export const majorityLost: Act = {
  title: 'A majority is lost, and heals',
  promises: [
    { id: 'nothingLocked', text: 'without a majority nothing is locked, paid or written' },
    { id: 'clearError', text: 'the error says so, and names the servers that are gone' },
    {
      id: 'resumes',
      text: 'a customer who waits through the outage is served when the servers are back',
    },
    ...salePromises(),
  ],
  needsFaults: true,
  async play(stage) {
    const { cluster } = stage;
    try {
      await Promise.all([
        cluster.node(1).kill(),
        cluster.node(2).freeze(),
        cluster.node(3).freeze(),
      ]);
      stage.tell('2 of 5 servers are left; a lock needs 3');
      await observeOutage(stage);
      stage.tell('fay asks while the servers come back');
      const waiting = stage.worker(3).book('E1', 'fay');
      await cluster.healAll();
      const served = await waiting;
      stage.observe(
        'resumes',
        served.outcome === 'booked',
        `fay: ${served.error?.message ?? served.outcome}`,
      );
    } finally {
      await cluster.healAll();
    }
    await stage.sell(SEATS, ['gil', 'hal', 'ina']);
    await observeSale(stage, SEATS);
  },
};

async function observeOutage(stage: Stage): Promise<void> {
  const since = stage.log.records.length;
  const results = await Promise.all([
    stage.worker(1).book('E1', 'dan'),
    stage.worker(2).book('E2', 'eve'),
  ]);
  const locks = stage
    .eventsSince(since)
    .filter((event) => event.type === 'lock' && event.event.type === 'acquired');
  const { tickets, payments } = await stage.books(SEATS);
  stage.observe(
    'nothingLocked',
    locks.length + tickets.length + payments.length === 0,
    `${locks.length} locks, ${payments.length} payments, ${tickets.length} tickets`,
  );
  const gone = stage.cluster.nodes.filter(({ state }) => state !== 'up');
  const named = results.map(({ error }) =>
    gone.filter(({ address }) => error?.causes.some((cause) => cause.address === address)),
  );
  stage.observe(
    'clearError',
    results.every(({ error }) => error?.code === 'QUORUM_UNAVAILABLE') &&
      named.every((nodes) => nodes.length === gone.length),
    results
      .map(
        ({ customer, error }, index) =>
          `${customer}: ${error?.code ?? 'no error'}, ${named[index]?.length} of ${gone.length} named`,
      )
      .join('; '),
  );
  for (const { address, message } of results[0]?.error?.causes ?? []) {
    const node = stage.cluster.nodes.find((each) => each.address === address);
    stage.tell(`  server ${node?.number ?? '?'} (${address}): ${message}`);
  }
}
