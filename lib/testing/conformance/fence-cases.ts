import { AsyncResource } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { MAX_KEY_LENGTH } from '../../core/options/lock-keys.ts';
import {
  demand,
  isRefused,
  noPause,
  ticketFor,
  type FenceStore,
  type FenceTicket,
} from '../fence-store.ts';

/** How long the kit waits for a store, and how much it does. */
export interface FenceAmounts {
  readonly gateMs: number;
  readonly idleMs: number;
  readonly sessions: number;
}

/** @throws Error when the store does not do what this step expects */
export type FenceStep = (
  store: FenceStore,
  resource: string,
  amounts: FenceAmounts,
) => Promise<void>;

/** The steps of each case, one after the other on a resource of its own. The name says what a right store does. */
export type FenceCases = Readonly<Record<string, readonly FenceStep[]>>;

const LARGE = 9_007_199_254_740_992n; // 2^53, from where on numbers have gaps

const LONG = 'x'.repeat(64);

export const claims = attempt('claim', 'accepted');
export const writes = attempt('write', 'accepted');
export const staleClaim = attempt('claim', 'rejected');
export const staleWrite = attempt('write', 'rejected');

/** The case that goes on beside prunes where the store has them. */
export const OVERLAPPING =
  'overlapping holders, some with the same number, leave one unbroken chain of writes';

/** What every store must do. */
export const FENCE_CASES: FenceCases = {
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
      ...longNames(256),
      ...longNames(MAX_KEY_LENGTH),
    ],
  'resources with signs that some take for others, or for none, do not know of each other':
    '😀 😁 ab a\u200bb a\u200db a/b a//b a\\b A %41 #1 #2'
      .split(' ')
      .map((name, index) => on(name, writes(20 - index))),
  'holders of the same number that differ at their end only, or in case, exclude each other': [
    claims(7, `${LONG}a`),
    attempt('claim', 'rejected', true)(7, `${LONG}a `),
    staleClaim(7, `${LONG}b`),
    staleWrite(7, `${LONG}A`),
    staleWrite(7, LONG),
    writes(7, `${LONG}a`),
  ],
  'a token is kept while many other resources are used': [
    claims(3),
    ...Array.from({ length: 25 }, (_none, round) =>
      // More in all than a small cache keeps.
      atOnce(Array.from({ length: 8 }, (_other, at) => on(`${round}:${at}`, claims(1 + (at % 2))))),
    ),
    staleClaim(2),
    staleWrite(1),
  ],
  'of many first holders at once the newest remains': [
    atOnce([3, 1, 4, 2].map((token) => attempt('claim')(token))),
    staleWrite(3),
    staleWrite(1),
    staleWrite(2),
    writes(4),
  ],
  'an older holder is rejected after the fence was idle': [
    claims(2),
    (_store, _resource, { idleMs }) => sleep(idleMs),
    staleWrite(1),
  ],
  'a writer paused between its check and its write loses no update of a newer one': [
    demandPause,
    claims(1),
    async (store, resource, { gateMs }) => {
      const [older, newer] = [ticketFor(resource, 1), ticketFor(resource, 2)] as const;
      await interleave(store, [older, newer], gateMs, async (history) => {
        demand(await history.claim(newer), 'the newer claim was rejected');
        demand(await history.readAndWrite(newer, noPause), 'the newer write was rejected');
      });
    },
  ],
  [OVERLAPPING]: [atOnce(['0', '1', '2'].map((name) => on(name, stress)))],
};

/**
 * @param expected absent: either
 * @param mayFail the store may not know such a name at all, but may not take it for another one
 */
export function attempt(
  step: 'claim' | 'write',
  expected?: 'accepted' | 'rejected',
  mayFail = false,
) {
  return (token: number | bigint, holder?: string): FenceStep =>
    async (store, resource) => {
      const by = ticketFor(resource, token, holder);
      const trial = step === 'claim' ? store.claim(by) : store.write(by, textBy(by), noPause);
      const outcome = await isRefused(store, trial).then(
        (isStale) => (isStale ? 'rejected' : 'accepted'),
        (error) => {
          if (mayFail) return expected;
          throw error;
        },
      );
      const stale = expected === 'rejected' ? 'stale ' : '';
      const isRight = expected === undefined || outcome === expected;
      demand(isRight, `the ${stale}${step} with ${textBy(by)} was ${outcome}`);
    };
}

export function reads(
  token: number | bigint,
  expected: 'its text' | 'nothing',
  of = token,
): FenceStep {
  return async (store, resource) => {
    const text = await store.read(ticketFor(resource, token));
    const right = expected === 'nothing' ? null : textBy(ticketFor(resource, of));
    demand(text === right, `holds ${JSON.stringify(text)} instead of ${JSON.stringify(right)}`);
  };
}

/** The steps, one after the other. */
export function inTurn(steps: readonly FenceStep[]): FenceStep {
  return async (...given) => {
    for (const step of steps) await step(...given);
  };
}

/** The steps, all at once. */
export function atOnce(steps: readonly FenceStep[]): FenceStep {
  return async (...given) => {
    await Promise.all(steps.map((step) => step(...given)));
  };
}

export function on(name: string, step: FenceStep): FenceStep {
  return (store, resource, amounts) => step(store, `${resource}:${name}`, amounts);
}

/** Two names of this length that differ at their end. */
function longNames(length: number): FenceStep[] {
  const claim = attempt('claim', 'accepted', true);
  return [2, 1].map(
    (token): FenceStep =>
      (store, resource, amounts) =>
        claim(token)(store, `${resource.padEnd(length - 1, 'x')}${token}`, amounts),
  );
}

export function textBy({ token, holder }: FenceTicket): string {
  return `${token} of ${holder}`;
}

interface Written {
  readonly ticket: FenceTicket;
  /** The text it was derived from; null for the first. */
  readonly previous: string | null;
}

/**
 * Remembers every accepted write with the text it was derived from. When no update was lost, the writes form one chain from
 * nothing to the text that is left; the order in the chain is the order of commits, in which tokens may not fall.
 */
class FenceHistory {
  private readonly written = new Map<string, Written>();

  constructor(
    private readonly store: FenceStore,
    private readonly resource: string,
  ) {}

  /** @returns false when the ticket was rejected */
  async claim(ticket: FenceTicket): Promise<boolean> {
    return !(await isRefused(this.store, this.store.claim(ticket)));
  }

  /**
   * Reads and writes what was derived from it.
   * @returns false when the ticket was rejected
   */
  async readAndWrite(
    ticket: FenceTicket,
    pauseBefore: () => Promise<void>,
    pauseInside = pauseBefore,
  ): Promise<boolean> {
    const previous = await this.store.read(ticket);
    await pauseBefore();
    const text = randomUUID();
    // It is noted before: a write that fails with another error than a refusal fails the case anyway.
    this.written.set(text, { ticket, previous });
    const refused = await isRefused(this.store, this.store.write(ticket, text, pauseInside));
    if (refused) this.written.delete(text);
    return !refused;
  }

  /** Follows the chain from the text that is left. @throws Error that counts lost updates and writes out of order */
  async check(reader: FenceTicket): Promise<void> {
    const lost = new Map(this.written);
    let fallen = 0;
    let newer: FenceTicket | undefined;
    for (let text = await this.store.read(reader); text !== null;) {
      const write = lost.get(text);
      if (!write) break;
      lost.delete(text);
      if (newer && isOlder(newer, write.ticket)) fallen += 1;
      newer = write.ticket;
      text = write.previous;
    }
    const among = `of ${this.written.size} accepted writes on ${this.resource}`;
    demand(lost.size === 0, `${lost.size} ${among} were lost`);
    demand(fallen === 0, `${fallen} ${among} came after a newer one`);
  }
}

/** An equal number of another holder counts as older: it may not follow. */
function isOlder(ticket: FenceTicket, than: FenceTicket): boolean {
  if (ticket.token === than.token) return ticket.holder !== than.holder;
  return BigInt(ticket.token) < BigInt(than.token);
}

/** This is longer than the rest of a write that does not wait for it. */
const PAUSE_MS = 100;

/**
 * A write without its pause can't be held where wrong stores lose updates, so that they would pass.
 *
 * @throws Error when the write ends before its pause
 */
async function demandPause(store: FenceStore, resource: string): Promise<void> {
  let isOver = false;
  await store.write(ticketFor(`${resource}:pause`, 1), 'paused', async () => {
    await sleep(PAUSE_MS);
    isOver = true;
  });
  demand(
    isOver,
    'write did not await pause(): await it between the check and the write, or right before them when they are one step',
  );
}

/**
 * The older holder is held between its check and its write. Meanwhile a newer one works. A right store makes the newer wait (the
 * gate then opens after `gateMs`) or rejects the older; a wrong one loses an update, which the `last` holder finds.
 */
export async function interleave(
  store: FenceStore,
  [older, last]: readonly [older: FenceTicket, last: FenceTicket],
  gateMs: number,
  work: (history: FenceHistory) => Promise<void>,
): Promise<void> {
  const history = new FenceHistory(store, older.resource);
  let newerWork: Promise<void> | undefined;
  // In the async context of the pause, the transaction of the older one would be around the work of the newer one.
  const startNewer = AsyncResource.bind(() => (newerWork ??= work(history)));
  const olderWrite = history.readAndWrite(older, noPause, async () => {
    const gate = sleep(gateMs, undefined, { ref: false });
    await Promise.race([Promise.allSettled([startNewer()]), gate]);
  });
  // The older one may also end without its pause.
  await Promise.allSettled([olderWrite]);
  await Promise.all([olderWrite, startNewer()]);
  await history.check(last);
}

/** Sessions at the same time. */
const WORKERS = 8;
/** The share of tokens that repeat the number of the one before, with another holder. */
const DUPLICATES = 0.15;

/**
 * Holders with rising tokens overlap as if the lock did nothing; random pauses stand between all steps. A holder that is
 * rejected gives up. In the end the accepted writes must form one chain.
 */
async function stress(
  store: FenceStore,
  resource: string,
  { sessions }: FenceAmounts,
): Promise<void> {
  const history = new FenceHistory(store, resource);
  const pause = (): Promise<void> => sleep(Math.random() * 3);
  let started = 0;
  let token = 0;
  const worker = async (): Promise<void> => {
    while (started < sessions) {
      started += 1;
      if (token === 0 || Math.random() >= DUPLICATES) token += 1;
      const by = ticketFor(resource, token, `session-${started}`);
      await pause();
      if (!(await history.claim(by))) continue;
      await pause();
      const goesOn = await history.readAndWrite(by, pause);
      if (goesOn && Math.random() < 0.5) await history.readAndWrite(by, pause);
    }
  };
  await Promise.all(Array.from({ length: WORKERS }, worker));
  const last = ticketFor(resource, token + 1);
  await store.claim(last);
  demand(await history.readAndWrite(last, pause), 'the newest holder was rejected');
  await history.check(last);
}
