import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import {
  claims,
  inTurn,
  reads,
  staleClaim,
  staleWrite,
  writes,
  type FenceStep,
} from './fence-conformance-cases.ts';
import { interleaveFenceWriters, type FenceStressOptions } from './fence-conformance-writers.ts';
import { demand, isRefused, noPause, ticketFor, type FenceStore } from '../fence-store.ts';

/** Distance that the clock of the store may have from that of this process. */
const SKEW_MS = 60_000;

/** Life of a token that is to become too old. */
const LIFE_MS = 400;

const ROUNDS = 3;

/** The time that the crowd goes on when its keys may be forgotten, in microseconds. */
const AFTERWARDS = 100_000n;

/** Tries for the edge of age: those whose answer takes long tell nothing new. */
const MOST_TRIES = 100;

/**
 * Time by which the first key that a prune must keep is younger than the oldest accepted token, and how often further the
 * next ones are.
 */
const LEAST_YOUNGER_MS = 1_000;
const FURTHER = 30;

/** Ages by the clock of this process, in milliseconds. */
interface Edge {
  readonly admittedMs: number;
  readonly refusedMs: number;
}

const timeOf = (ageMs: number): bigint => BigInt(Math.floor((Date.now() - ageMs) * 1_000));

/** Cases of a store that rejects tokens for their age, and forgets them. */
export class FenceAges {
  private edge: Edge | undefined;

  constructor(
    private readonly store: FenceStore,
    private readonly maxAgeMs: number,
    private readonly options: FenceStressOptions,
  ) {}

  /** Runs the work while the fence is pruned again and again. */
  async beside(resource: string, work: () => Promise<void>): Promise<void> {
    const { refusedMs } = await this.findEdge(resource);
    let isOver = false;
    const pruning = this.pruneUntil(() => isOver, refusedMs);
    await Promise.all([work().finally(() => (isOver = true)), pruning]);
  }

  cases(gateMs: number): Readonly<Record<string, readonly FenceStep[]>> {
    const old = timeOf(this.maxAgeMs + SKEW_MS);
    const live = timeOf(0);
    const ofAge: Readonly<Record<string, readonly FenceStep[]>> = {
      'a token that is too old is rejected, also of a holder that came in time': [
        staleClaim(old),
        staleWrite(old),
        this.onOldKey((newest) => [staleClaim(newest), staleWrite(newest), writes(live)]),
      ],
      'a token that is not yet too old is accepted': [
        (store, resource) => {
          const young = timeOf(this.maxAgeMs - SKEW_MS);
          return inTurn([claims(young), writes(young), reads(young, 'its text')], store, resource);
        },
      ],
    };
    if (!this.store.prune) return ofAge;
    return {
      ...ofAge,
      'a key that was forgotten by a clock ahead keeps its text, and rejects what it had rejected':
        [
          this.onOldKey((newest) => [
            () => this.prune(newest + 1n),
            staleClaim(newest - 1n),
            staleWrite(newest - 2n),
            staleClaim(newest, 'another'),
            claims(live),
            reads(live, 'its text', newest),
          ]),
        ],
      'a key whose token is not yet too old still rejects older holders after a prune': [
        (_store, resource) => this.younger(resource),
      ],
      'older holders are rejected all the while their keys are pruned': [
        (_store, resource) => this.crowd(resource),
      ],
      'a writer paused between its check and its write loses no update of a newer one that was pruned':
        [(_store, resource) => this.interleave(resource, gateMs)],
    };
  }

  private async prune(before: bigint): Promise<void> {
    await this.store.prune?.({ before: String(before) });
  }

  private async pruneUntil(isOver: () => boolean, refusedMs: number): Promise<void> {
    const pauseMs = (): number => Math.random() * (this.options.maxPauseMs ?? 3);
    for (; !isOver(); await sleep(pauseMs())) await this.prune(timeOf(refusedMs));
  }

  /** @throws Error when the store judges ages otherwise than its `maxAge` says */
  private async findEdge(resource: string): Promise<Edge> {
    if (this.edge) return this.edge;
    let [refusedMs, admittedMs] = [this.maxAgeMs + SKEW_MS, this.maxAgeMs - SKEW_MS];
    const refuses = (ageMs: number): Promise<boolean> =>
      isRefused(this.store, this.store.claim(ticketFor(`${resource}:${ageMs}`, timeOf(ageMs))));
    const isRight = (await refuses(refusedMs)) && !(await refuses(admittedMs));
    demand(isRight, 'it does not reject the tokens that are older than its maxAge, and these only');
    for (let count = 0; count < MOST_TRIES && refusedMs - admittedMs > 1; count += 1) {
      const [middleMs, startMs] = [(refusedMs + admittedMs) / 2, performance.now()];
      // A token may become too old on its way.
      if (await refuses(middleMs))
        refusedMs = Math.min(refusedMs, middleMs + performance.now() - startMs);
      else admittedMs = middleMs;
    }
    return (this.edge = { admittedMs, refusedMs });
  }

  /** Steps on a key that has a text, and whose newest token has become too old. */
  private onOldKey(steps: (newest: bigint) => readonly FenceStep[]): FenceStep {
    return async (store, resource) => {
      const { admittedMs } = await this.findEdge(resource);
      let newest = 0n;
      let lifeMs = LIFE_MS / 2;
      const isTooLate = (): Promise<boolean> => {
        newest = timeOf(admittedMs - lifeMs);
        const by = ticketFor(resource, newest);
        return isRefused(store, store.write(by, `${newest} of ${by.holder}`, noPause));
      };
      // A token may become too old on its way, on a slow machine.
      do lifeMs *= 2;
      while ((await isTooLate()) && lifeMs < SKEW_MS / 4);
      await this.untilOld(newest);
      await inTurn(steps(newest), store, resource);
    };
  }

  private async untilOld(token: bigint): Promise<void> {
    const { refusedMs } = this.edge!;
    while (token >= timeOf(refusedMs)) await sleep(5);
  }

  /** The keys of these tokens are forgotten later, if at all. */
  private async younger(resource: string): Promise<void> {
    const { store } = this;
    const { admittedMs, refusedMs } = await this.findEdge(resource);
    const keys: { name: string; newest: bigint }[] = [];
    for (let ms = LEAST_YOUNGER_MS; ms < this.maxAgeMs / 2; ms *= FURTHER)
      keys.push({ name: `${resource}:${ms}`, newest: timeOf(admittedMs - ms) });
    for (const { name, newest } of keys)
      await isRefused(store, store.write(ticketFor(name, newest), name, noPause));
    await this.prune(timeOf(refusedMs));
    for (const { name, newest } of keys) {
      await staleClaim(newest - 1n)(store, name);
      await staleWrite(newest - 2n)(store, name);
    }
  }

  /** None of the older ones comes in, from before their keys may be forgotten until afterwards. */
  private async crowd(resource: string): Promise<void> {
    const { store } = this;
    const { workers = 8 } = this.options;
    const { admittedMs, refusedMs } = await this.findEdge(resource);
    for (let round = 0; round < ROUNDS; round += 1) {
      const names = Array.from(
        { length: workers },
        (_none, index) => `${resource}:${round}:${index}`,
      );
      const newest = timeOf(admittedMs - LIFE_MS);
      // If it comes too late and is rejected, so is all the more the older one.
      await Promise.all(
        names.map((name) => isRefused(store, store.claim(ticketFor(name, newest)))),
      );
      let isOver = false;
      const older = async (name: string, attempt: FenceStep): Promise<void> => {
        for (; !isOver; await nextTurn()) await attempt(store, name);
      };
      const attempts = [staleClaim(newest - 1n), staleWrite(newest - 2n)];
      const crowd = names.flatMap((name) => attempts.map((attempt) => older(name, attempt)));
      const pruning = this.pruneUntil(() => timeOf(refusedMs) >= newest + AFTERWARDS, refusedMs);
      await Promise.all([pruning.finally(() => (isOver = true)), ...crowd]);
    }
  }

  /** Brings back what the older one saw, for the newer one's token is gone. */
  private async interleave(resource: string, gateMs: number): Promise<void> {
    const { admittedMs } = await this.findEdge(resource);
    const newest = timeOf(admittedMs - LIFE_MS);
    const newer = ticketFor(resource, newest);
    const tickets = [ticketFor(resource, newest - 1n), ticketFor(resource, timeOf(0))] as const;
    // A wrong store does not wait: the newer token has to become too old meanwhile.
    const longerMs = gateMs + 2 * LIFE_MS;
    await interleaveFenceWriters(this.store, tickets, longerMs, async (history) => {
      if (await history.claim(newer)) await history.readAndWrite(newer, noPause);
      await this.untilOld(newest);
      await this.prune(newest + 1n);
    });
  }
}
