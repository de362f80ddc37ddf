import {
  demand,
  isRefused,
  noPause,
  ticket,
  type FenceStore,
  type FenceTicket,
} from '../fence-store.ts';

type FenceCase = readonly [
  name: string,
  run: (store: FenceStore, resource: string) => Promise<void>,
];

const LARGE = 9_007_199_254_740_992n; // 2^53, from where on numbers have gaps

/** What holds without any concurrency. Each case has a resource of its own. */
export const FENCE_CASES: readonly FenceCase[] = [
  [
    'the first holder claims, reads nothing, writes, and reads what it wrote',
    async (store, resource) => {
      const first = ticket(resource, 1);
      await accepted(store, first, 'claim');
      demand((await store.read(first)) === null, 'a new resource holds something');
      await accepted(store, first, 'write');
      await holds(store, first, textOf(first));
    },
  ],
  [
    'a holder writes more than once',
    async (store, resource) => {
      const holder = ticket(resource, 5);
      await accepted(store, holder, 'claim');
      await accepted(store, holder, 'write');
      await accepted(store, holder, 'write');
      await accepted(store, holder, 'claim');
    },
  ],
  [
    'a newer holder takes over',
    async (store, resource) => {
      await accepted(store, ticket(resource, 1), 'write');
      await accepted(store, ticket(resource, 2), 'claim');
      await accepted(store, ticket(resource, 2), 'write');
      await holds(store, ticket(resource, 2), textOf(ticket(resource, 2)));
    },
  ],
  [
    'an older claim is refused',
    async (store, resource) => {
      await accepted(store, ticket(resource, 2), 'claim');
      await refused(store, ticket(resource, 1), 'claim');
    },
  ],
  [
    'an older write is refused and changes nothing, and the newer holder goes on',
    async (store, resource) => {
      await accepted(store, ticket(resource, 2), 'write');
      await refused(store, ticket(resource, 1), 'write');
      await holds(store, ticket(resource, 2), textOf(ticket(resource, 2)));
      await accepted(store, ticket(resource, 2), 'write');
    },
  ],
  [
    'an older write is refused when the newer holder has claimed and not yet written',
    async (store, resource) => {
      const [older, newer] = [ticket(resource, 1), ticket(resource, 2)];
      await accepted(store, older, 'claim');
      await accepted(store, newer, 'claim');
      demand((await store.read(newer)) === null, 'a new resource holds something');
      await refused(store, older, 'write');
      demand((await store.read(newer)) === null, 'the refused write was written');
    },
  ],
  [
    'of two holders with the same number the second is refused',
    async (store, resource) => {
      const [first, second] = [ticket(resource, 7, 'a'), ticket(resource, 7, 'b')];
      await accepted(store, first, 'claim');
      await refused(store, second, 'claim');
      await refused(store, second, 'write');
      await accepted(store, first, 'write');
    },
  ],
  [
    'resources do not know of each other',
    async (store, resource) => {
      await accepted(store, ticket(`${resource}:a`, 9), 'write');
      await accepted(store, ticket(`${resource}:b`, 1), 'write');
      await accepted(store, ticket(`${resource}:A`, 1), 'write');
    },
  ],
  [
    'tokens are compared as numbers, not as text',
    async (store, resource) => {
      await accepted(store, ticket(resource, 9), 'write');
      await accepted(store, ticket(resource, 10), 'write');
      await refused(store, ticket(resource, 9), 'write');
    },
  ],
  [
    'tokens beyond 2^53 are exact',
    async (store, resource) => {
      await accepted(store, ticket(resource, LARGE, 'same'), 'write');
      await accepted(store, ticket(resource, LARGE + 1n, 'same'), 'write');
      await refused(store, ticket(resource, LARGE, 'same'), 'write');
      await refused(store, ticket(resource, LARGE, 'same'), 'claim');
    },
  ],
  [
    'of many first holders at once the newest remains',
    async (store, resource) => {
      const tickets = [3, 1, 4, 2].map((token) => ticket(resource, token));
      await Promise.all(tickets.map((each) => isRefused(store, store.claim(each))));
      for (const each of tickets.filter(({ token }) => token !== '4'))
        await refused(store, each, 'write');
      await accepted(store, ticket(resource, 4), 'write');
    },
  ],
];

function textOf({ token, holder }: FenceTicket): string {
  return `${token} of ${holder}`;
}

async function tried(
  store: FenceStore,
  by: FenceTicket,
  step: 'claim' | 'write',
): Promise<boolean> {
  return isRefused(
    store,
    step === 'claim' ? store.claim(by) : store.write(by, textOf(by), noPause),
  );
}

async function accepted(
  store: FenceStore,
  by: FenceTicket,
  step: 'claim' | 'write',
): Promise<void> {
  demand(!(await tried(store, by, step)), `the ${step} with ${textOf(by)} was refused`);
}

async function refused(store: FenceStore, by: FenceTicket, step: 'claim' | 'write'): Promise<void> {
  demand(await tried(store, by, step), `the stale ${step} with ${textOf(by)} was accepted`);
}

async function holds(store: FenceStore, by: FenceTicket, expected: string): Promise<void> {
  const text = await store.read(by);
  demand(text === expected, `holds ${JSON.stringify(text)} instead of ${JSON.stringify(expected)}`);
}
