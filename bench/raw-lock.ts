import { createHash, randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { TTL_MS, type LockContestant } from './contestant.ts';

/** KEYS: lock. ARGV: owner. Deletes the lock if it is the owner's. */
const COMPARE_AND_DELETE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

/** KEYS: lock, counter. ARGV: owner, ttl in ms. Takes a free lock and counts; returns the count, 0 when it is taken. */
const SET_AND_COUNT = `if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('INCR', KEYS[2]) end return 0`;

/**
 * The least that a lock on N servers can cost with ioredis: one command to each node, resolved as soon as a quorum has
 * answered, and the same again for the release. No fence that holds, no validity, no timeouts, no extension, no retry.
 */
export class RawLock implements LockContestant {
  readonly name: string;
  readonly #clients: Redis[];
  readonly #fenced: boolean;
  readonly #quorum: number;
  /** The end of the last holder of each key in this process. */
  readonly #ends = new Map<string, Promise<void>>();

  private constructor(name: string, clients: Redis[], fenced: boolean) {
    this.name = name;
    this.#clients = clients;
    this.#fenced = fenced;
    this.#quorum = Math.floor(clients.length / 2) + 1;
  }

  /** `fenced`: a counter beside each lock, in one script, instead of a plain SET. It orders nothing across nodes. */
  static async connect(name: string, urls: readonly string[], fenced = false): Promise<RawLock> {
    const clients = urls.map((url) => new Redis(url));
    await Promise.all(
      clients.flatMap((client) => [
        client.script('LOAD', COMPARE_AND_DELETE),
        client.script('LOAD', SET_AND_COUNT),
      ]),
    );
    return new RawLock(name, clients, fenced);
  }

  async cycle(key: string): Promise<void> {
    const owner = randomUUID();
    await this.#acquire(key, owner);
    await this.#release(key, owner);
  }

  /** Callers of this process take turns; that is all that this lock has for them. */
  async hold(key: string, work: () => Promise<void>): Promise<void> {
    const before = this.#ends.get(key);
    const held = (async () => {
      await before;
      const owner = randomUUID();
      await this.#acquire(key, owner);
      await work();
      await this.#release(key, owner);
    })();
    this.#ends.set(key, held);
    await held;
    if (this.#ends.get(key) === held) this.#ends.delete(key);
  }

  #acquire(key: string, owner: string): Promise<void> {
    return this.#atQuorum((client) =>
      this.#fenced
        ? client.evalsha(SET_AND_COUNT_SHA, 2, key, `${key}:fence`, owner, TTL_MS)
        : client.set(key, owner, 'PX', TTL_MS, 'NX'),
    );
  }

  #release(key: string, owner: string): Promise<void> {
    return this.#atQuorum((client) => client.evalsha(COMPARE_AND_DELETE_SHA, 1, key, owner));
  }

  async close(): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.quit()));
  }

  #atQuorum(send: (client: Redis) => Promise<unknown>): Promise<void> {
    return new Promise((resolve, reject) => {
      let successes = 0;
      for (const client of this.#clients) {
        send(client).then((reply) => {
          if (reply === null || reply === 0) return reject(new Error(`${this.name}: not free`));
          if (++successes === this.#quorum) resolve();
        }, reject);
      }
    });
  }
}

const COMPARE_AND_DELETE_SHA = sha1(COMPARE_AND_DELETE);
const SET_AND_COUNT_SHA = sha1(SET_AND_COUNT);

function sha1(text: string): string {
  return createHash('sha1').update(text).digest('hex');
}
