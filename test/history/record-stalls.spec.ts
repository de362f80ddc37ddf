import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { eventually } from '../support/eventually.ts';
import { processState } from '../support/process-state.ts';
import { Program } from '../support/program.ts';
import { readHistory } from './history-file.ts';
import { historyNow, type StalledEvent } from './lock-history.ts';
import { STALL_MS, stallBeforeKill } from './record-stalls.ts';

let folder: string;
let paths: { historyPath: string; notePath: string };
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stalls-'));
  paths = { historyPath: join(folder, 'ticking.jsonl'), notePath: join(folder, 'ticking.tick') };
});
afterEach(() => rmSync(folder, { recursive: true }));

const startTicking = async () => {
  const program = new Program<object>('test/history/ticking-process.ts', paths);
  await program.first();
  return program;
};
const stallUntil = (at: number) => stallBeforeKill(paths.notePath, 'ticking', at);

/** Kills the process, and returns what that says about its end. */
async function kill(program: Program<object>) {
  const killedAt = historyNow();
  await program.kill();
  const own = readHistory<StalledEvent>(paths.historyPath);
  return { killedAt, stall: stallUntil(killedAt), ownUntil: own.at(-1)?.to ?? -Infinity };
}

describe('a process that is killed', () => {
  it('has left behind since when it was stopped', async () => {
    const startedAt = historyNow();
    const program = await startTicking();
    program.child.kill('SIGSTOP');
    await eventually(() => expect(processState(program.child.pid!)).toBe('T'));
    const stoppedAt = historyNow();
    await sleep(100);
    const { stall, killedAt, ownUntil } = await kill(program);
    expect(stall).toMatchObject({ type: 'stalled', process: 'ticking', to: killedAt });
    expect([stall!.from > startedAt, stall!.from <= stoppedAt, stall!.from >= ownUntil]).toEqual([
      true,
      true,
      true,
    ]);
  });

  it('has left behind since when its event loop was blocked', async () => {
    const program = await startTicking();
    program.ask({}).catch(() => undefined);
    await eventually(() => expect(stallUntil(historyNow() - 200)).toBeDefined());
    const { stall, killedAt, ownUntil } = await kill(program);
    expect(stall).toMatchObject({ to: killedAt, killed: true });
    expect([killedAt - stall!.from > 200, stall!.from >= ownUntil]).toEqual([true, true]);
  });

  it('has no such stall when it ran', async () => {
    // A machine that is busy may keep it from running at any moment, but not every time.
    for (let tries = 1; ; tries += 1) {
      const program = await startTicking();
      await sleep(4 * STALL_MS);
      const { stall } = await kill(program);
      if (stall === undefined) break;
      expect(tries).toBeLessThan(20);
    }
  });

  it('has no such stall after a usual tick, nor before its first look', () => {
    writeFileSync(paths.notePath, '');
    expect(stallUntil(1_000_000)).toBeUndefined();
    writeFileSync(paths.notePath, new Float64Array([1_000.5]));
    expect(stallUntil(1_000.5 + STALL_MS)).toBeUndefined();
    expect(stallUntil(900)).toBeUndefined();
    expect(stallUntil(1_001 + STALL_MS)).toEqual({
      type: 'stalled',
      process: 'ticking',
      from: 1_000.5,
      to: 1_001 + STALL_MS,
      killed: true,
    });
  });
});
