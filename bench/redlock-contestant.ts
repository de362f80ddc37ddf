import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Fenced, RedlockModule } from '../lib/index.ts';
import type { RedlockOptions } from '../lib/core/options/options.ts';
import { Redlock } from '../lib/core/redlock.ts';
import type { RedisNodeInput } from '../lib/redis/client/client-source.ts';
import { createNode } from '../lib/redis/create-node.ts';
import type { LockContestant } from './contestant.ts';

// Restart guard is off, as it would only delay the start: it costs nothing once a node votes.
const OPTIONS: RedlockOptions = { restartGuard: false };
/** Long enough for the last of many callers. One object: what is worked out from it is kept with it. */
const WAITING = Object.freeze({ wait: '10m' } as const);

/** An open lock service over these servers. */
export async function openRedlock(
  inputs: readonly RedisNodeInput[],
  options: RedlockOptions = {},
): Promise<Redlock> {
  const nodes = await Promise.all(inputs.map((input) => createNode(input, {})));
  const redlock = new Redlock(nodes, { ...OPTIONS, ...options });
  redlock.open();
  if (!(await redlock.ready(10_000))) throw new Error('No quorum of nodes within 10 s.');
  return redlock;
}

/** Package of this repository, as users get it: default options, automatic extension on. */
export async function connectRedlock(
  name: string,
  urls: readonly RedisNodeInput[],
): Promise<LockContestant> {
  const redlock = await openRedlock(urls);
  return {
    name,
    cycle: async (key) => {
      const lock = await redlock.acquire(key);
      await lock.release();
    },
    hold: (key, work) => redlock.withLock(key, work, WAITING),
    close: () => redlock.close(),
  };
}

/** The same by `withLock`, which answers when the release was sent. */
export async function connectWithLock(
  name: string,
  urls: readonly string[],
): Promise<LockContestant> {
  const redlock = await openRedlock(urls);
  return {
    name,
    cycle: (key) => redlock.withLock(key, () => undefined),
    hold: (key, work) => redlock.withLock(key, work, WAITING),
    close: () => redlock.close(),
  };
}

@Injectable()
class Work {
  @Fenced('{0}', WAITING)
  async run(_key: string, work?: () => Promise<void>): Promise<void> {
    await work?.();
  }
}

/** The same by the decorator. */
export async function connectFenced(
  name: string,
  urls: readonly string[],
): Promise<LockContestant> {
  const application = await NestFactory.createApplicationContext(
    {
      module: class Application {},
      imports: [RedlockModule.forRoot({ nodes: [...urls], ...OPTIONS })],
      providers: [Work],
    },
    { logger: false },
  );
  const work = application.get(Work);
  return {
    name,
    cycle: (key) => work.run(key),
    hold: (key, section) => work.run(key, section),
    close: () => application.close(),
  };
}
