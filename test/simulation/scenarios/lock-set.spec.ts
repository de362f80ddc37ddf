import { describe, expect, it } from '@jest/globals';
import { isRedlockError } from '../../../lib/core/errors.ts';
import type { ClientProcess } from '../world/client-process.ts';
import { Chance } from '../world/chance.ts';
import { SetRegister } from './register.ts';
import { Stage } from '../world/stage.ts';

const TTL_MS = 500;
const SEEDS = 12;

/** Jepsen's etcd lock-set under pauses: everybody adds elements; what was acknowledged must be there at the end. */
async function playLockSet(
  seed: number,
): Promise<{ lost: [fenced: number, unfenced: number]; refused: number }> {
  const stage = await Stage.open({ clients: 4, ttlMs: TTL_MS, seed });
  const views = [new SetRegister(true), new SetRegister(false)] as const;
  const acknowledged: [string[], string[]] = [[], []];
  const chance = new Chance(seed).branch('lock-set');

  async function add({ process, redlock }: ClientProcess, element: string): Promise<void> {
    const lock = await redlock.acquire('a', { wait: 4 * TTL_MS });
    const token = lock.token.value;
    const seen = views.map((view) => view.read(token));
    await process.sleep(chance.between(0, TTL_MS));
    // Checked, and yet the process may stop before the write.
    if (lock.isHeld) {
      if (chance.happens(0.3)) process.stall(chance.between(TTL_MS, 3 * TTL_MS));
      const leavesMs = process.nowMs;
      await new Promise<void>((resolve) => {
        stage.run.world.at(leavesMs, () => {
          views.forEach((view, index) => {
            const elements = seen[index];
            if (elements && view.write(token, [...elements, element]))
              acknowledged[index]!.push(element);
          });
          process.deliver(resolve);
        });
      });
    }
    await lock.release();
  }

  const workers = stage.clients.map((_, index) =>
    stage.start(index, async (client) => {
      for (let number = 0; number < 8; number += 1) {
        await add(client, `${index}.${number}`).catch((error: unknown) => {
          if (!isRedlockError(error)) throw error;
        });
      }
    }),
  );
  for (const worker of workers) expect(await stage.settle(worker)).toEqual({ value: undefined });
  await stage.close();
  const lost = views.map(
    ({ elements }, index) =>
      acknowledged[index]!.filter((element) => !elements.includes(element)).length,
  ) as [number, number];
  expect(acknowledged[0].length).toBeGreaterThan(5);
  return { lost, refused: views[0].refused };
}

describe('A set behind a lock, under pauses', () => {
  it('loses acknowledged elements without the fence, and none with it', async () => {
    let refused = 0;
    const lost: [fenced: number, unfenced: number] = [0, 0];
    for (let seed = 1; seed <= SEEDS; seed += 1) {
      const played = await playLockSet(seed);
      refused += played.refused;
      lost[0] += played.lost[0];
      lost[1] += played.lost[1];
    }
    expect(lost[0]).toBe(0);
    expect(lost[1]).toBeGreaterThan(0);
    expect(refused).toBeGreaterThan(0);
  });
});

describe('A leader that is cut off from the lock nodes', () => {
  it('is notified before the next leader is there, and the fence refuses what it writes all the same', async () => {
    const stage = await Stage.open({ ttlMs: TTL_MS });
    const views = [new SetRegister(true), new SetRegister(false)] as const;
    const first = await stage.do(0, ({ redlock }) => redlock.acquire('a'));
    const record = views.map((view) => view.read(first.token.value)!);
    let toldAtMs = 0;
    first.signal.addEventListener('abort', () => (toldAtMs = stage.nowMs));
    stage.cut(0, [0, 1, 2]);
    const second = await stage.do(1, ({ redlock }) => redlock.acquire('a', { wait: 3 * TTL_MS }));
    expect(toldAtMs).toBeGreaterThan(0);
    expect(toldAtMs).toBeLessThan(stage.nowMs);
    expect([first.isHeld, second.isHeld]).toEqual([false, true]);
    // Holders both patch their own part of the record that they read.
    for (const view of views) {
      view.write(second.token.value, [...view.read(second.token.value)!, 'patch of the second']);
    }
    views.forEach((view, index) =>
      view.write(first.token.value, [...record[index]!, 'patch of the first']),
    );
    expect(views[0].elements).toEqual(['patch of the second']);
    // Patch of the second, although acknowledged, is gone without the fence.
    expect(views[1].elements).toEqual(['patch of the first']);
    stage.mend(0, [0, 1, 2]);
    await stage.close();
  });
});
