import { describe, expect, it } from '@jest/globals';
import { isRedlockError } from '../../../lib/core/errors.ts';
import { SetRegister } from './register.ts';
import { Stage } from '../world/stage.ts';

// The counterexamples of Martin Kleppmann, "How to do distributed locking" (2016), on five nodes A to E.
const [A, B, C, D, E] = [0, 1, 2, 3, 4];
const TTL_MS = 1_000;

describe('The clock of node C jumps forward', () => {
  it('lets two clients believe, for at most an extension interval; the fence keeps the record right', async () => {
    const stage = await Stage.open({ nodes: 5, ttlMs: TTL_MS });
    stage.cut(0, [D, E]);
    const first = await stage.do(0, ({ redlock }) => redlock.acquire('a', { wait: 0 }));
    stage.servers[C]!.clockErrorMs += 2 * TTL_MS;
    stage.cut(1, [A, B]);
    const second = await stage.do(1, ({ redlock }) => redlock.acquire('a', { wait: 0 }));
    // Overlap that no lock with expiry can exclude.
    expect([first.isHeld, second.isHeld]).toEqual([true, true]);
    expect(second.token.value).toBeGreaterThan(first.token.value);
    const views = [new SetRegister(true), new SetRegister(false)] as const;
    for (const view of views) {
      const seen = view.read(first.token.value)!;
      view.write(second.token.value, [...view.read(second.token.value)!, 'second']);
      view.write(first.token.value, [...seen, 'first']);
    }
    expect(views.map(({ elements }) => elements)).toEqual([['second'], ['first']]);
    // Holder that was first stops as soon as it is notified.
    stage.mend(0, [D, E]);
    await stage.advance(TTL_MS / 2);
    expect([first.isHeld, second.isHeld]).toEqual([false, true]);
    stage.mend(1, [A, B]);
    await stage.close();
  });
});

describe('Node C crashes and comes back without its data', () => {
  async function play(guard: boolean): Promise<{ stage: Stage; both: boolean }> {
    const stage = await Stage.open({ nodes: 5, ttlMs: TTL_MS, guard });
    stage.cut(0, [D, E]);
    const first = await stage.do(0, ({ redlock }) => redlock.acquire('a', { extend: false }));
    const { validUntilMs } = { validUntilMs: stage.nowMs + first.remainingMs };
    stage.servers[C]!.kill();
    stage.servers[C]!.restart('empty');
    stage.cut(1, [A, B]);
    const second = await stage.do(1, ({ redlock }) => redlock.acquire('a', { wait: 3 * TTL_MS }));
    expect(second.token.value).toBeGreaterThan(first.token.value);
    const both = stage.nowMs < validUntilMs;
    stage.mend(0, [D, E]);
    stage.mend(1, [A, B]);
    return { stage, both };
  }

  it('cannot give the lock away twice: it may not vote until every lock it forgot has ended', async () => {
    const { stage, both } = await play(true);
    expect(both).toBe(false);
    await stage.close();
  });

  it('does give it away twice without the guard', async () => {
    const { stage, both } = await play(false);
    expect(both).toBe(true);
    await stage.close();
  });
});

describe('The client pauses', () => {
  it('while the grants sit in its socket buffer: it wakes up without a lock', async () => {
    const stage = await Stage.open({ nodes: 5, ttlMs: TTL_MS });
    const started = stage.start(0, ({ redlock }) => redlock.acquire('a', { wait: 0 }));
    // The requests are under way, and so will be the replies.
    await stage.advance(0.3);
    stage.clients[0]!.process.stall(2 * TTL_MS);
    const second = await stage.do(1, ({ redlock }) => redlock.acquire('a', { wait: 2 * TTL_MS }));
    const outcome = await stage.settle(started);
    expect('error' in outcome && isRedlockError(outcome.error) && outcome.error.code).toBe(
      'QUORUM_UNAVAILABLE',
    );
    expect(second.isHeld).toBe(true);
    await stage.close();
  });

  it('between the check of its lock and its write: the fence refuses the write', async () => {
    const stage = await Stage.open({ nodes: 5, ttlMs: TTL_MS });
    const views = [new SetRegister(true), new SetRegister(false)] as const;
    const first = await stage.do(0, ({ redlock }) => redlock.acquire('a'));
    const seen = views.map((view) => view.read(first.token.value)!);
    expect(first.isHeld).toBe(true);
    stage.clients[0]!.process.stall(2 * TTL_MS);
    const second = await stage.do(1, ({ redlock }) => redlock.acquire('a', { wait: 2 * TTL_MS }));
    for (const view of views) {
      view.write(second.token.value, [...view.read(second.token.value)!, 'second']);
    }
    const taken = views.map((view, index) =>
      view.write(first.token.value, [...seen[index]!, 'first']),
    );
    expect(taken).toEqual([false, true]);
    expect(views.map(({ elements }) => elements)).toEqual([['second'], ['first']]);
    await stage.advance(2 * TTL_MS);
    expect(first.isHeld).toBe(false);
    await stage.close();
  });
});
