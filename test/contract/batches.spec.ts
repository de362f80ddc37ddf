import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { seededRandom } from '../support/manual-environment.ts';
import { startRedisServers } from '../support/redis-servers/index.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';
import { ContractClient } from './contract-client.ts';
import type { ContractHarness } from './contract-harness.ts';
import { withoutClocks } from './random-commands.ts';
import { createRedisHarness } from './redis-harness.ts';

// Batches are compared with the same requests one after the other, on one real server under two prefixes. Nothing expires while
// they run: lives are hours, and a lock is never kept for somebody, because nobody listens and a release passes the turn on. The
// contract has a batch for each reply about a lock that is kept.

/** Batches of one seed: so few that no ballot grows too old meanwhile. The campaign has more seeds. */
const RUNS = 300;
const SEEDS = Array.from(
  { length: Number(process.env['BATCH_RUNS']) / RUNS },
  (_, index) => index + 1,
);
const KEYS = ['a', 'b', 'c', 'd'];
const HOLDERS = ['n1', 'n2', 'n3', 'n4'].map((name) => name.padEnd(8, '.'));
const CHANNEL = 'nobody listens';
const HOUR_MS = 3_600_000;
/** Behind the clock, by more than it allows or by more than a guard leaves; ahead of it, by more than a day or not. */
const FAR_MICROS = [-HOUR_MS, -120_000, HOUR_MS, 40 * HOUR_MS].map((ms) => ms * 1_000);
const AHEAD_MICROS = 30_000_000;
const MOST_REQUESTS = 40;

interface Request {
  readonly kind: 'acquire' | 'extend' | 'release' | 'abandon' | 'wait';
  readonly keys: readonly string[];
  readonly holder: string;
  readonly ballot: number;
  readonly ttlMs: number;
  readonly ticket: number;
}

let server: RedisServer;
let admin: Redis;

beforeAll(async () => {
  [server] = (await startRedisServers(1)) as [RedisServer];
  admin = new Redis(server.url);
});

afterAll(async () => {
  admin.disconnect();
  await server?.stop();
});

function send(client: ContractClient, { names }: ContractHarness, request: Request) {
  const { kind, keys, holder, ballot, ttlMs, ticket } = request;
  const of = names(...keys);
  if (kind === 'acquire') return client.acquire(of, holder, ballot, ttlMs);
  if (kind === 'extend') return client.extend(of, holder, ballot, ttlMs);
  if (kind === 'wait')
    return client.stand(names(keys[0]!), holder, { ticket, channel: CHANNEL, lifeMs: HOUR_MS });
  return kind === 'release' ? client.release(of, holder) : client.abandon(of, holder);
}

/** Sends each request when the one before it is answered. */
async function oneByOne(client: ContractClient, harness: ContractHarness, requests: Request[]) {
  const replies = [];
  for (const request of requests) replies.push(await send(client, harness, request));
  return replies;
}

/** Sends all in one turn, while another answer is due: so none of them goes alone. */
function together(client: ContractClient, harness: ContractHarness, requests: Request[]) {
  void client.inspect(harness.names('z'));
  return Promise.all(requests.map((request) => send(client, harness, request)));
}

/** State of the server under every name; times in half hours. */
async function stateOf({ names }: ContractHarness): Promise<unknown[]> {
  const pipeline = admin.pipeline();
  for (const name of names(...KEYS).pairs) {
    pipeline.type(name);
    pipeline.get(name);
    pipeline.pttl(name);
  }
  for (const lock of names(...KEYS).locks)
    pipeline.call('zrange', `${lock}#queue`, '0', '-1', 'WITHSCORES');
  const results = (await pipeline.exec()) ?? [];
  return results.map(([error, value]): unknown =>
    typeof value === 'number' ? Math.round(value / (HOUR_MS / 2)) : (error?.message ?? value),
  );
}

class Chance {
  readonly #random: { fraction(): number };

  constructor(seed: number) {
    this.#random = seededRandom(seed);
  }

  below(limit: number): number {
    return Math.floor(this.#random.fraction() * limit);
  }

  one<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)]!;
  }

  /** Draws requests, of which one is sent twice now and then. */
  requests(count: number, base: number): Request[] {
    const drawn = Array.from({ length: count }, () => this.request(base));
    return drawn.flatMap((each) => (this.below(8) === 0 ? [each, each] : [each]));
  }

  /** The next vote leaves with the release of a key that is held. */
  handOver(base: number, state: readonly unknown[]): Request[] {
    const key = this.one(KEYS);
    const holder = state[KEYS.indexOf(key) * 6 + 1];
    if (typeof holder !== 'string' || this.below(2) === 0) return [];
    const next = { ...this.request(base + 40), keys: [key] };
    const release = { ...next, kind: 'release', holder } as const;
    return [release, { ...next, kind: 'acquire' }];
  }

  request(base: number): Request {
    const chosen = KEYS.filter(() => this.below(3) === 0);
    const holder = this.one(HOLDERS);
    return {
      kind: this.one(['acquire', 'acquire', 'acquire', 'extend', 'release', 'abandon', 'wait']),
      keys: chosen.length > 0 ? chosen : [this.one(KEYS)],
      holder,
      ballot: base + (this.below(8) === 0 ? this.one(FAR_MICROS) : this.below(40)),
      // A life per holder, so that which of two lives longer never depends on a millisecond.
      ttlMs: (HOLDERS.indexOf(holder) + 1) * HOUR_MS,
      ticket: 1 + this.below(9),
    };
  }
}

/** Disturbs single names between batches, the same under both prefixes. */
async function disturb(chance: Chance, harnesses: readonly ContractHarness[]): Promise<void> {
  const key = chance.one(KEYS);
  const how = chance.below(20);
  for (const { names, deleteMarker } of harnesses) {
    const [lock, floor] = names(key).pairs as [string, string];
    if (how < 3) await admin.del(lock, floor);
    else if (how > 15) await admin.del(...names(...KEYS).pairs);
    else if (how === 3) await admin.del(floor);
    else if (how === 4) await admin.multi().del(lock).hset(lock, 'of', 'the user').exec();
    else if (how === 5) await admin.set(floor, 'no number');
    else if (how === 6) await deleteMarker();
    else if (how === 7) await admin.del(lock);
  }
}

/** Plays the same batches in both ways and fails at the first difference. Returns the kinds of replies that were met. */
async function compare(
  seed: number,
  runs: number,
  { restartGuardMs = 0, hasGuardEnded = false } = {},
): Promise<Set<string>> {
  const harnesses = [await createRedisHarness(server), await createRedisHarness(server)] as const;
  try {
    const clients = [
      await ContractClient.connect(harnesses[0]),
      await ContractClient.connect(harnesses[1]),
    ] as const;
    const nowMicros = await harnesses[0].nowMicros();
    const join = async () => {
      for (const client of clients) await client.join(restartGuardMs);
      if (!hasGuardEnded) return;
      for (const harness of harnesses) await harness.endGuard(Math.floor(nowMicros / 1_000));
    };
    await join();
    const chance = new Chance(seed);
    const kinds = new Set<string>();
    // Ahead of every join of the run: other ballots take no gate.
    let base = nowMicros + AHEAD_MICROS;
    for (let run = 0; run < runs; run += 1) {
      base += chance.below(20);
      const count = 2 + chance.below(chance.below(20) === 0 ? MOST_REQUESTS : 8);
      const handOver = chance.handOver(base, await stateOf(harnesses[1]));
      const requests = [...handOver, ...chance.requests(count, base)];
      const expected = await oneByOne(clients[0], harnesses[0], requests);
      const outcome = [expected.map(withoutClocks), await stateOf(harnesses[0])] as const;
      const received = await together(clients[1], harnesses[1], requests);
      const other = [received.map(withoutClocks), await stateOf(harnesses[1])] as const;
      if (!isDeepStrictEqual(other, outcome)) {
        const texts = [requests, outcome, other].map((value) => JSON.stringify(value));
        throw new Error(
          `Seed ${seed}, batch ${run}, ${texts[0]}\nexpected ${texts[1]}\nreceived ${texts[2]}`,
        );
      }
      for (const { kind, ...more } of expected)
        kinds.add('recreated' in more && more.recreated > 0 ? 'recreated' : kind);
      await disturb(chance, harnesses);
      const joins = chance.below(3) > 0;
      if (joins) await join();
      if (joins && chance.below(8) === 0)
        for (const harness of harnesses) await harness.takeMarkerOfAnother();
    }
    return kinds;
  } finally {
    await Promise.all(harnesses.map((harness) => harness.close()));
  }
}

describe('requests in a batch', () => {
  it.each(SEEDS)('have each the meaning of its own script, seed %i', async (seed) => {
    const kinds = await compare(seed, RUNS);
    // The run is worth something only when it met what matters.
    expect([...kinds]).toEqual(
      expect.arrayContaining([
        'accepted',
        'ahead',
        'unjoined',
        'held',
        'stale',
        'extended',
        'recreated',
        'lost',
        'released',
        'waiting',
        'failed',
      ]),
    );
  });

  it('are refused in quarantine and without a join as single ones are', async () => {
    const kinds = await compare(3, 200, { restartGuardMs: HOUR_MS });
    expect([...kinds]).toEqual(expect.arrayContaining(['quarantined', 'unjoined']));
  });

  it('are refused below the limit that a restart guard leaves behind, as single ones are', async () => {
    // The limit is half a guard before its end: what is two minutes behind is refused for the guard alone.
    const kinds = await compare(4, 150, { restartGuardMs: 60_000, hasGuardEnded: true });
    expect([...kinds]).toEqual(expect.arrayContaining(['accepted', 'stale']));
  });
});
