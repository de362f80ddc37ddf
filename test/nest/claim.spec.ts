import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  Fenced,
  LockBusyError,
  LockService,
  StaleTokenError,
  type FencingToken,
  type Lock,
  type RedlockModuleOptions,
} from '../../lib/index.ts';
import { createFencingToken } from '../../lib/testing/index.ts';
import { eventually } from '../support/eventually.ts';
import { closeAll, startModule } from './support/applications.ts';
import { Gate } from './support/critical-section.ts';

const HOUR_MICROS = 3_600_000_000;

/** Remembers the newest token of each key, and what became of each claim. */
class RecordingFence {
  readonly claims: string[] = [];
  readonly #newest = new Map<string, FencingToken>();
  /** Called before a claim is looked at. */
  onClaim: (count: number) => unknown = () => undefined;

  async claim(token: FencingToken): Promise<void> {
    await this.onClaim(this.claims.length);
    for (const key of token.keys) {
      const newest = this.#newest.get(key);
      if (newest && newest.value > token.value) {
        this.claims.push('stale');
        throw new StaleTokenError(key, String(token.value), String(newest.value), newest.holder);
      }
    }
    this.claims.push('admitted');
    for (const key of token.keys) this.#newest.set(key, token);
  }

  /** The resource has seen a number so far ahead of our clocks. */
  see(hoursAhead: number, key = 'seat:1'): number {
    const token = createFencingToken(key, Date.now() * 1_000 + hoursAhead * HOUR_MICROS);
    this.#newest.set(key, token);
    return token.value;
  }
}

type Work = (lock: Lock) => unknown;

@Injectable()
class Seats {
  constructor(readonly locks: LockService) {}

  @Fenced('seat:{0}', { claim: true, wait: 200, nested: 'join', signal: (_id, _work, own) => own })
  async method(_id: string, work: Work, _signal?: AbortSignal): Promise<unknown> {
    return work(this.locks.current()!);
  }

  @Fenced('seat:{0}', {
    claim: true,
    onBusy: 'skip',
    nested: 'join',
    signal: (_id, _work, own) => own,
  })
  async skipping(_id: string, work: Work, _signal?: AbortSignal): Promise<unknown> {
    return work(this.locks.current()!);
  }

  async withLock(id: string, work: Work, signal?: AbortSignal): Promise<unknown> {
    const options = { claim: true, wait: 200, nested: 'join', signal } as const;
    return this.locks.withLock(`seat:${id}`, work, options);
  }
}

async function start(options: Partial<RedlockModuleOptions> = {}) {
  const fence = new RecordingFence();
  const module = await startModule({ providers: [Seats] }, { fence, ...options });
  const seats = module.get(Seats);
  const ran: FencingToken[] = [];
  const work = ({ token }: Lock) => (ran.push(token), 'done');
  return { fence, module, seats, locks: seats.locks, ran, work };
}
type Started = Awaited<ReturnType<typeof start>>;
type Call = (signal?: AbortSignal) => Promise<unknown>;

const STALE = expect.objectContaining({ code: 'STALE_TOKEN' });
const SHORT = { ttl: 300, extend: false } as const;
const gone = new LockBusyError(['other'], 5, undefined);

/** Takes the key as another caller, when the first claim is refused, and before it can be taken again. */
function overtake({ fence, locks }: Started): Promise<Lock> {
  const isRefused = new Gate();
  // The call is outside of the section, where it does not join the lock.
  const newer = isRefused.opened.then(() => locks.acquire('seat:1'));
  fence.onClaim = async () => {
    isRefused.open();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return newer;
}

interface Situation {
  readonly options?: Partial<RedlockModuleOptions>;
  /** Result, or what the error is like. */
  readonly ends: unknown;
  readonly claims: readonly string[];
  readonly play: (call: Call, on: Started) => Promise<unknown>;
}

const SITUATIONS: Record<string, Situation> = {
  'the token is newer': { ends: 'done', claims: ['admitted'], play: (call) => call() },
  'a newer holder was there, in numbers that nodes would refuse': {
    ends: STALE,
    claims: ['stale'],
    play: (call, { fence }) => (fence.see(25), call()),
  },
  'a number ahead of our clocks was there: the lock is taken again, above it': {
    ends: 'done',
    claims: ['stale', 'admitted'],
    play: async (call, { fence, ran }) => {
      const ahead = fence.see(23);
      const result = await call();
      expect(ran[0]!.value).toBeGreaterThan(ahead);
      return result;
    },
  },
  'another number ahead came meanwhile': {
    ends: STALE,
    claims: ['stale', 'stale'],
    play: (call, { fence }) => {
      fence.onClaim = (count) => fence.see(1 + count);
      return call();
    },
  },
  'the minHold of the module keeps the lock': {
    options: { minHold: 100 },
    ends: STALE,
    claims: ['stale'],
    play: (call, { fence }) => (fence.see(1), call()),
  },
  'a source of tokens would give the next number all the same': {
    options: { tokens: { issue: async () => 7 } },
    ends: expect.objectContaining({ code: 'STALE_TOKEN', token: '7' }),
    claims: ['stale'],
    play: (call, { fence }) => (fence.see(0), call()),
  },
  'the lock was over, also where no timer has said so yet': {
    options: SHORT,
    ends: STALE,
    claims: ['stale'],
    play: (call, { fence }) => {
      fence.see(1);
      fence.onClaim = () => {
        for (const startMs = performance.now(); performance.now() - startMs < 400;);
      };
      return call();
    },
  },
  'the claim waits until the lock is lost': {
    options: SHORT,
    ends: expect.objectContaining({ code: 'LOCK_LOST' }),
    claims: [],
    play: (call, { fence }) => {
      fence.onClaim = () => new Promise(() => {});
      return call();
    },
  },
  'a newer holder has the lock by then': {
    ends: STALE,
    claims: ['stale'],
    play: async (call, on) => {
      on.fence.see(1);
      const newer = overtake(on);
      const outcome = await call().catch((error: unknown) => error);
      await (await newer).release();
      throw outcome;
    },
  },
  'the call is in the middle of work under the lock': {
    ends: STALE,
    claims: ['stale'],
    play: (call, { fence, locks }) =>
      locks.withLock('seat:1', () => {
        fence.see(1);
        return call();
      }),
  },
  'the call is inside of one that has claimed': {
    ends: 'done',
    claims: ['admitted'],
    play: (call, { seats }) => seats.method('1', () => call()),
  },
  'the caller has gone while the claim waited': {
    ends: gone,
    claims: [],
    play: (call, { fence }) => {
      const caller = new AbortController();
      fence.onClaim = () => {
        caller.abort(gone);
        return new Promise(() => {});
      };
      return call(caller.signal);
    },
  },
};

describe.each(['method', 'skipping', 'withLock'] as const)('a claim by %s', (surface) => {
  afterEach(closeAll);

  it.each(Object.entries(SITUATIONS))('ends as it must where %s', async (_, situation) => {
    const { options, ends, claims, play } = situation;
    const started = await start(options);
    const { seats, work, ran, fence, locks } = started;
    const call: Call = (signal) => seats[surface]('1', work, signal);
    const outcome = await play(call, started).catch((error: unknown) => error);
    expect(outcome).toEqual(ends);
    expect([ran.length, fence.claims]).toEqual([ends === 'done' ? 1 : 0, claims]);
    // The lock was let go of.
    await (await locks.acquire('seat:1')).release();
  });

  it('leaves an error of the work alone, also where it says that a lock is busy', async () => {
    const { seats } = await start();
    const busy = Object.assign(new Error('of the work'), { code: 'LOCK_BUSY' });
    await expect(seats[surface]('1', () => Promise.reject(busy))).rejects.toBe(busy);
  });
});

describe('a claim', () => {
  afterEach(closeAll);

  it('of a caller that has gone meanwhile ends with its reason, also when that says busy', async () => {
    const started = await start();
    const { fence, locks, work } = started;
    fence.see(1);
    const newer = overtake(started);
    const caller = new AbortController();
    const options = { claim: true, wait: '1h', signal: caller.signal } as const;
    const call = locks.withLock('seat:1', work, options);
    const lock = await newer;
    await eventually(() => expect(locks.held().waiting).toHaveLength(1));
    caller.abort(gone);
    await expect(call).rejects.toBe(gone);
    await lock.release();
  });

  it('of a set is refused once for each key, and has the keys of the call, whatever became of its array', async () => {
    const { fence, locks } = await start();
    fence.see(1, 'a');
    const ahead = fence.see(2, 'b');
    const keys = ['a', 'b'];
    const held = locks.withLock(keys, ({ token }) => token, { claim: true });
    keys[0] = 'another';
    const token = await held;
    expect([token.keys, fence.claims]).toEqual([
      ['a', 'b'],
      ['stale', 'stale', 'admitted'],
    ]);
    expect(token.value).toBeGreaterThan(ahead);
  });

  it('is none without claim: true', async () => {
    const { fence, locks, work } = await start();
    for (const options of [undefined, {}, { claim: false }, { claim: undefined, ttl: '5s' }])
      await locks.withLock('seat:1', work, options as object);
    expect(fence.claims).toEqual([]);
  });

  it('is refused where the module has no fence: by the start, and in a class that it did not see', async () => {
    await expect(start({ fence: undefined })).rejects.toMatchObject({ code: 'FENCED_USAGE' });
    const module = await startModule({});
    const unseen = await module.get(ModuleRef).create(Seats);
    let ran = 0;
    for (const surface of ['method', 'withLock'] as const)
      await expect(unseen[surface]('1', () => (ran += 1))).rejects.toMatchObject({
        code: 'FENCED_USAGE',
      });
    expect(ran).toBe(0);
  });
});
