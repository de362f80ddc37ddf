import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { startRedisServers } from '../../test/support/redis-servers/index.ts';
import type { RedisServer } from '../../test/support/redis-servers/index.ts';
import { gateName } from '../../lib/redis/scripts.ts';
import { ContractClient, RETENTION_MS } from '../../test/contract/contract-client.ts';
import { contractChecks } from '../../test/contract/lock-node.contract.ts';
import { createRedisHarness } from '../../test/contract/redis-harness.ts';

/** When a key ends, or up to a millisecond before; Redis 6.2 has no PEXPIRETIME. */
const END = `local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000) + redis.call('PTTL', KEYS[1])`;

let server: RedisServer;

beforeAll(async () => {
  // Clocks can be moved on Linux only: elsewhere every test here fails with that reason.
  [server] = (await startRedisServers(1, { movableClock: true })) as [RedisServer];
});

afterAll(async () => {
  await server?.stop();
});

describe('contract of the node port: Redis whose clock moves', () => {
  const checks = contractChecks.filter(({ needs }) => needs?.includes('clock'));

  it.each(checks)('$name', async (check) => {
    expect.hasAssertions();
    const harness = await createRedisHarness(server, { hasMovableClock: true });
    try {
      await check.run(harness);
    } finally {
      await harness.close();
    }
  });
});

it('a gate ends R/16 after the clock that it is made of, also where writing it took longer', async () => {
  const harness = await createRedisHarness(server);
  const admin = new Redis(server.url);
  const gate = gateName(harness.markerName);
  try {
    const client = await ContractClient.joined(harness);
    for (let run = 0; run < 300; run += 1) {
      await admin.del(gate);
      const names = harness.names(`gate${run}`);
      await client.acquire(names, 'holder', (await harness.nowMicros()) + 1_000);
      const high = Number((await admin.get(gate))!.slice(16, 32));
      const openedAtMs = Math.floor(high / 1000) - RETENTION_MS / 8;
      const endsAtMs = Number(await admin.eval(END, 1, gate));
      expect(endsAtMs).toBeLessThanOrEqual(openedAtMs + RETENTION_MS / 16);
    }
  } finally {
    admin.disconnect();
    await harness.close();
  }
});
