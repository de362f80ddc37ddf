import { isDeepStrictEqual } from 'node:util';
import { afterEach, describe, expect, it } from '@jest/globals';
import type { AcquireReply } from '../../lib/core/nodes/lock-node.ts';
import { ContractClient } from './contract-client.ts';
import type { ContractHarness } from './contract-harness.ts';
import { createMemoryHarness } from './memory-harness.ts';
import { perform, randomCommands, stateOf, withoutClocks } from './random-commands.ts';

// The order of those that wait is no part of what makes locks safe: where a lock that is kept for somebody reads as no lock, a
// server with lines does what one without them does, or refuses.

/** Steps of one seed: so few that no ballot grows too old meanwhile. The campaign has more seeds. */
const STEPS = 1_500;
const SEEDS = Array.from(
  { length: Number(process.env['BATCH_RUNS']) / 300 },
  (_, index) => index + 1,
);
const AHEAD_MICROS = 30_000_000;

const harnesses: ContractHarness[] = [];

afterEach(async () => {
  await Promise.all(harnesses.splice(0).map((harness) => harness.close()));
});

/** Returns how often a lock was kept from somebody. Fails at the first difference. */
async function compare(
  seed: number,
  steps: number,
  waiting: ContractHarness,
  plainOne: ContractHarness,
): Promise<number> {
  harnesses.push(waiting, plainOne);
  const [first, second] = [
    await ContractClient.joined(waiting),
    await ContractClient.joined(plainOne),
  ];
  await first.listen('turns:listened');
  let refused = 0;
  const base = (await waiting.nowMicros()) + AHEAD_MICROS;
  for (const [step, command] of randomCommands(seed, steps, base).entries()) {
    const reply = (await perform(command, first, waiting)) as AcquireReply | undefined;
    const isRefused = reply?.kind === 'held' && reply.holder.startsWith('#');
    if (isRefused) refused += 1;
    const isOfLines = command.kind === 'wait' || command.kind === 'giveBack';
    const isStep = !isOfLines && !isRefused;
    const other = isStep ? await perform(command, second, plainOne) : reply;
    const outcome = [withoutClocks(reply), await stateOf(waiting)];
    const expected = [withoutClocks(other), await stateOf(plainOne)];
    if (isDeepStrictEqual(outcome, expected)) continue;
    const texts = [command, expected, outcome].map((value) => JSON.stringify(value));
    throw new Error(
      `Seed ${seed}, step ${step}, ${texts[0]}\nexpected ${texts[1]}\nreceived ${texts[2]}`,
    );
  }
  return refused;
}

describe('a server with lines', () => {
  it.each(SEEDS)('does what one without them does, or refuses, seed %i', async (seed) => {
    const refused = await compare(seed, STEPS, createMemoryHarness(), createMemoryHarness());
    expect(refused).toBeGreaterThan(0);
  });
});
