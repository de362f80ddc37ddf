import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Fenced, FencingToken, LockService, RedlockModule } from '../lib/index.ts';
import { createMemoryNodes } from '../lib/testing/index.ts';
import type { Contestant } from './contestant.ts';
import { measure, type RoundPlan } from './measure.ts';
import type { Result } from './report.ts';

@Injectable()
class Work {
  @Fenced('{0}', { ttl: '10s', nested: 'join' })
  async run(_key: string, @FencingToken() token?: FencingToken): Promise<number> {
    return token!.value;
  }
}

/** Cost of `@Fenced` over `locks.withLock`, on nodes in memory: alone, and when it joins a lock that is held around it. */
export async function decoratorCost(
  progressOf: (scenario: string) => (share: number) => void,
  plan: RoundPlan,
): Promise<Result[]> {
  const application = await NestFactory.createApplicationContext(
    {
      module: class Application {},
      imports: [RedlockModule.forRoot({ nodes: createMemoryNodes(3), restartGuard: false })],
      providers: [Work],
    },
    { logger: false },
  );
  const locks = application.get(LockService);
  const work = application.get(Work);
  // Options that the decorator has worked out, too.
  const options = Object.freeze({ ttl: 10_000, nested: 'join' } as const);
  const contestants = (keyOf: (key: string) => string): Contestant[] => {
    const alone = async (key: string) =>
      void (await locks.withLock(keyOf(key), async (lock) => lock.token.value, options));
    const close = async () => undefined;
    return [
      { name: 'locks.withLock', cycle: alone, close },
      { name: 'the same again (noise)', cycle: alone, close },
      { name: '@Fenced', cycle: async (key) => void (await work.run(keyOf(key))), close },
    ];
  };
  const apart = contestants((key) => key);
  const inside = contestants(() => 'held');
  const results = await compare('@Fenced', apart, progressOf, plan);
  const joined = await locks.withLock('held', () =>
    compare('@Fenced inside of its lock', inside, progressOf, plan),
  );
  await application.close();
  return [...results, ...joined];
}

async function compare(
  scenario: string,
  contestants: readonly Contestant[],
  progressOf: (scenario: string) => (share: number) => void,
  plan: RoundPlan,
): Promise<Result[]> {
  const measured = await measure(contestants, plan, progressOf(scenario));
  return measured.map(({ name, micros, difference }) => ({
    scenario,
    contestant: name,
    value: difference,
    unit: 'µs',
    micros,
  }));
}
