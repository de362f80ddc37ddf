import { pathToFileURL } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { NestFactory } from '@nestjs/core';
import { Redis } from 'ioredis';
import type * as Package from '../../lib/index.ts';
import { answerQuestions, programSettings } from '../../test/support/program.ts';

// A process of an application that uses one version of the package; it locks for as long as it is asked to, and counts.

export interface LockingSettings {
  /** The entry of the package. */
  readonly entry: string;
  readonly nodes: readonly string[];
  /** A server beside those of the locks, which sees who is inside. */
  readonly judge: string;
}

export interface Tally {
  locks: number;
  /** The sections that found somebody else inside. */
  overlaps: number;
  /** Sections whose token was not above that of the section before. */
  inversions: number;
  /** The calls without a lock, by the code of their error. */
  refused: Record<string, number>;
}

const KEYS = ['a', 'b', 'c', 'd'];
const CALLERS_PER_KEY = 2;
/** The time of a hold, so long that the machine waits more than it works: what else it does then changes little. */
const HOLD_MS = 10;

const { entry, nodes, judge } = programSettings<LockingSettings>();
const { LockService, RedlockModule } = (await import(pathToFileURL(entry).href)) as typeof Package;
const imports = [RedlockModule.forRoot({ nodes: [...nodes], ttl: '1s' })];
const application = await NestFactory.createApplicationContext(
  { module: class Application {}, imports },
  { logger: false },
);
const locks = application.get(LockService);
const witness = new Redis(judge);

async function lockFor(ms: number): Promise<Tally> {
  const tally: Tally = { locks: 0, overlaps: 0, inversions: 0, refused: {} };
  const end = performance.now() + ms;
  const loop = async (key: string): Promise<void> => {
    while (performance.now() < end)
      await locks
        .withLock(key, (lock) => section(key, lock.token.value, tally), { wait: '2s' })
        .catch(({ code = 'other' }: { code?: string }) => {
          tally.refused[code] = (tally.refused[code] ?? 0) + 1;
        });
  };
  await Promise.all(
    KEYS.flatMap((key) => Array.from({ length: CALLERS_PER_KEY }, () => loop(key))),
  );
  return tally;
}

async function section(key: string, token: number, tally: Tally): Promise<void> {
  const entered = await witness.set(`inside:${key}`, token, 'NX');
  const before = await witness.getset(`token:${key}`, token);
  if (entered === null) tally.overlaps += 1;
  if (Number(before) >= token) tally.inversions += 1;
  await sleep(HOLD_MS);
  await witness.del(`inside:${key}`);
  tally.locks += 1;
}

process.on('disconnect', () => {
  witness.disconnect();
  void application.close();
});
answerQuestions<{ ms: number }>('ready', ({ ms }) => lockFor(ms));
