import { MAX_KEY_LENGTH } from '../../core/options/lock-keys.ts';
import {
  demand,
  isRefused,
  noPause,
  ticketFor,
  type FenceStore,
  type FenceTicket,
} from '../fence-store.ts';

/** @throws Error when the store does not do what this step expects */
export type FenceStep = (store: FenceStore, resource: string) => Promise<void>;

const LARGE = 9_007_199_254_740_992n; // 2^53, from where on numbers have gaps

const LONG = 'x'.repeat(64);

/** More than a small cache keeps, so many at once. */
const OTHERS = 200;
const AT_ONCE = 8;

export const claims = attempt('claim', 'accepted');
export const writes = attempt('write', 'accepted');
export const staleClaim = attempt('claim', 'rejected');
export const staleWrite = attempt('write', 'rejected');

/** Rules that hold without any concurrency: the steps of each case, one after the other on a resource of its own. */
export const FENCE_CASES: Readonly<Record<string, readonly FenceStep[]>> = {
  'the first holder claims, reads nothing, writes, and reads what it wrote': [
    claims(1),
    reads(1, 'nothing'),
    writes(1),
    reads(1, 'its text'),
  ],
  'a holder writes more than once': [claims(5), writes(5), writes(5), claims(5)],
  'a newer holder takes over': [writes(1), claims(2), writes(2), reads(2, 'its text')],
  'an older claim is rejected': [claims(2), staleClaim(1)],
  'an older write is rejected and changes nothing, and the newer holder goes on': [
    writes(2),
    staleWrite(1),
    reads(2, 'its text'),
    writes(2),
  ],
  'an older write is rejected when the newer holder has claimed and not yet written': [
    claims(1),
    claims(2),
    reads(2, 'nothing'),
    staleWrite(1),
    reads(2, 'nothing'),
  ],
  'of two holders with the same number the second is rejected': [
    claims(7, 'a'),
    staleClaim(7, 'b'),
    staleWrite(7, 'b'),
    writes(7, 'a'),
  ],
  'resources do not know of each other': [
    on('a', writes(9)),
    on('b', writes(1)),
    on('A', writes(1)),
  ],
  'tokens are compared as numbers, not as text': [writes(9), writes(10), staleWrite(9)],
  'tokens beyond 2^53 are exact': [
    writes(LARGE - 1n, 'same'),
    writes(LARGE, 'same'),
    writes(LARGE + 1n, 'same'),
    staleWrite(LARGE, 'same'),
    staleClaim(LARGE, 'same'),
  ],
  'tokens around 2^31, 2^32, 10^15, the microseconds of today, and up to 2^63 - 1 are exact': [
    2n ** 31n,
    2n ** 32n,
    10n ** 15n,
    BigInt(Date.now()) * 1_000n,
    2n ** 63n - 2n,
  ].flatMap((middle) =>
    [
      writes(middle - 1n, 'same'),
      writes(middle, 'same'),
      writes(middle + 1n, 'same'),
      staleWrite(middle, 'same'),
      staleClaim(middle - 1n, 'same'),
    ].map((step) => on(String(middle), step)),
  ),
  'resources that differ in a blank at the end, an accent, or at the end of a long name do not know of each other':
    [
      ...['e', 'e ', 'é', 'e\u0301', 'ss', 'ß', `${LONG}a`, `${LONG}b`].map((name, index) =>
        on(name, writes(9 - index)),
      ),
      longNames(256),
      longNames(MAX_KEY_LENGTH),
    ],
  'resources with signs that some take for others, or for none, do not know of each other':
    '😀 😁 ab a\u200bb a\u200db a/b a//b a\\b A %41 #1 #2'
      .split(' ')
      .map((name, index) => on(name, writes(20 - index))),
  'holders of the same number that differ at their end only, or in case, exclude each other': [
    claims(7, `${LONG}a`),
    neverClaims(7, `${LONG}a `),
    staleClaim(7, `${LONG}b`),
    staleWrite(7, `${LONG}A`),
    staleWrite(7, LONG),
    writes(7, `${LONG}a`),
  ],
  'a token is kept while many other resources are used': [
    claims(3),
    async (store, resource) => {
      for (let used = 0; used < OTHERS; used += AT_ONCE) {
        const others = Array.from({ length: AT_ONCE }, (_none, index) =>
          on(String(used + index), claims(1 + (index % 2)))(store, resource),
        );
        await Promise.all(others);
      }
    },
    staleClaim(2),
    staleWrite(1),
  ],
  'of many first holders at once the newest remains': [
    async (store, resource) => {
      const tickets = [3, 1, 4, 2].map((token) => ticketFor(resource, token));
      await Promise.all(tickets.map((each) => isRefused(store, store.claim(each))));
    },
    staleWrite(3),
    staleWrite(1),
    staleWrite(2),
    writes(4),
  ],
};

function attempt(step: 'claim' | 'write', expected: 'accepted' | 'rejected') {
  return (token: number | bigint, holder?: string): FenceStep =>
    async (store, resource) => {
      const by = ticketFor(resource, token, holder);
      const trial = step === 'claim' ? store.claim(by) : store.write(by, textOf(by), noPause);
      const outcome = (await isRefused(store, trial)) ? 'rejected' : 'accepted';
      const stale = expected === 'rejected' ? 'stale ' : '';
      demand(outcome === expected, `the ${stale}${step} with ${textOf(by)} was ${outcome}`);
    };
}

export function reads(
  token: number | bigint,
  expected: 'its text' | 'nothing',
  of = token,
): FenceStep {
  return async (store, resource) => {
    const text = await store.read(ticketFor(resource, token));
    const right = expected === 'nothing' ? null : textOf(ticketFor(resource, of));
    demand(text === right, `holds ${JSON.stringify(text)} instead of ${JSON.stringify(right)}`);
  };
}

export async function inTurn(
  steps: readonly FenceStep[],
  store: FenceStore,
  resource: string,
): Promise<void> {
  for (const step of steps) await step(store, resource);
}

function on(name: string, step: FenceStep): FenceStep {
  return (store, resource) => step(store, `${resource}:${name}`);
}

/** A store may reject names of this length, but not take two of them for one. */
function longNames(length: number): FenceStep {
  return async (store, resource) => {
    const start = resource.padEnd(length - 1, 'x');
    for (const token of [2, 1]) {
      const claim = store.claim(ticketFor(`${start}${token}`, token));
      const refused = await isRefused(store, claim).catch(() => false);
      demand(!refused, `two names of ${length} characters that differ at their end were one`);
    }
  };
}

/** A store may reject such a holder, but not take it for another one. */
function neverClaims(token: number, holder: string): FenceStep {
  return async (store, resource) => {
    const claim = store.claim(ticketFor(resource, token, holder));
    const refused = await isRefused(store, claim).catch(() => true);
    demand(refused, 'two holders that differ in a blank at their end were one');
  };
}

function textOf({ token, holder }: FenceTicket): string {
  return `${token} of ${holder}`;
}
