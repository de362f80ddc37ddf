import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import {
  claims,
  reads,
  staleClaim,
  staleWrite,
  writes,
  type FenceStep,
} from './fence-conformance-cases.ts';
import { interleaveFenceWriters, type FenceStressOptions } from './fence-conformance-writers.ts';
import { demand, isRefused, noPause, ticket, type FenceStore } from '../fence-store.ts';

const DAY_MS = 86_400_000;

/** How much older than a day the oldest tokens are: of the years in which they are larger than those that stand for a counter. */
const WIDEST_MS = 3_000 * DAY_MS;
/** Clocks differ by less than the step up to a floor. */
const NARROWEST_MS = 60_000;
const STEP = 0.985;

const ROUNDS = 5;

/** How far above the floor is the lowest key that the prune must keep, and how often further the next ones are. */
const LEAST_ABOVE_MS = 60_000;
const FURTHER = 30;

/** A key that has a text, and its newest token, which the prune puts below the floor. */
interface OldKey {
  readonly name: string;
  readonly newest: bigint;
  /** Age of the floor in milliseconds. */
  readonly olderThan: number;
  readonly prune: () => Promise<void>;
  /** With a floor below the key. */
  readonly pruneLess: () => Promise<void>;
}

const timeOf = (ageMs: number): bigint => BigInt(Math.floor(Date.now() - ageMs)) * 1_000n;

/** Prunes, each of which raises the floor a little: it never falls, and comes no nearer than a day. */
export class FencePrunes {
  /** Between tokens that may still be admitted, and those of a day ago. */
  private roomMs = WIDEST_MS;

  constructor(
    private readonly store: FenceStore,
    private readonly options: FenceStressOptions,
  ) {}

  /** Runs the work while the fence is pruned again and again. */
  async beside(resource: string, work: () => Promise<void>): Promise<void> {
    const { prune } = await this.oldKey(resource);
    let isOver = false;
    const pruning = async (): Promise<void> => {
      for (; !isOver; await sleep(this.pauseMs())) await prune();
    };
    await Promise.all([work().finally(() => (isOver = true)), pruning()]);
  }

  /** What a prune may not do. */
  cases(gateMs: number): Readonly<Record<string, readonly FenceStep[]>> {
    const onOldKey =
      (steps: (key: OldKey) => readonly FenceStep[]): FenceStep =>
      async (store, resource) => {
        const key = await this.oldKey(resource);
        for (const step of steps(key)) await step(store, key.name);
      };
    // Young enough for every floor.
    const live = timeOf(DAY_MS / 2);
    return {
      'a pruned key keeps its text, and still refuses what it had refused': [
        onOldKey(({ newest, prune }) => [
          prune,
          staleClaim(newest - 1n),
          staleWrite(newest - 2n),
          staleClaim(newest, 'another'),
          claims(live),
          reads(live, 'its text', newest),
        ]),
      ],
      'a prune that goes less far than the one before admits nothing': [
        onOldKey(({ newest, prune, pruneLess }) => [prune, pruneLess, staleClaim(newest - 1n)]),
      ],
      'the newest holder of a key above the floor goes on after a prune': [
        writes(live),
        onOldKey(({ prune }) => [prune]),
        claims(live),
        writes(live),
      ],
      'a key above the floor still refuses older holders after a prune': [
        (_store, resource) => this.above(resource),
      ],
      'older holders are refused all the while their keys are pruned': [
        (_store, resource) => this.crowd(resource),
      ],
      'a writer paused between its check and its write loses no update of a newer one that was pruned':
        [(_store, resource) => this.interleave(resource, gateMs)],
    };
  }

  /** @throws Error when the floor comes too near to a day */
  private async oldKey(resource: string): Promise<OldKey> {
    const { store } = this;
    const name = `${resource}:old`;
    for (; ; this.roomMs *= STEP * STEP) {
      demand(
        this.roomMs > NARROWEST_MS,
        'its floor refuses all that is older than a day: give the kit a fence that was not pruned that far',
      );
      const newest = timeOf(DAY_MS + this.roomMs);
      const by = ticket(name, newest);
      if (await isRefused(store, store.write(by, `${newest} of ${by.holder}`, noPause))) continue;
      const { roomMs } = this;
      const olderThan = DAY_MS + roomMs * STEP;
      return {
        name,
        newest,
        olderThan,
        prune: () => this.prune(olderThan),
        pruneLess: () => this.prune(DAY_MS + roomMs * 1.5),
      };
    }
  }

  private async prune(ageMs: number): Promise<void> {
    const olderThan = Math.ceil(ageMs);
    await this.store.prune?.({ olderThan, floor: String(timeOf(olderThan)) });
  }

  private pauseMs(): number {
    return Math.random() * (this.options.maxPauseMs ?? 3);
  }

  /** Keys just above the floor and further and further, up to half a day ago. */
  private async above(resource: string): Promise<void> {
    const { store } = this;
    const { olderThan, prune } = await this.oldKey(resource);
    const times = [timeOf(DAY_MS / 2)];
    for (let ms = LEAST_ABOVE_MS; olderThan - ms > DAY_MS / 2; ms *= FURTHER)
      times.push(timeOf(olderThan - ms));
    const keys = times.map((newest, index) => ({ name: `${resource}:${index}`, newest }));
    // Refused where others raise the floor: then all the more the older one.
    for (const { name, newest } of keys)
      await isRefused(store, store.write(ticket(name, newest), name, noPause));
    await prune();
    for (const { name, newest } of keys) {
      await staleClaim(newest - 1n)(store, name);
      await staleWrite(newest - 2n)(store, name);
    }
  }

  /** None of the older ones comes in, be it between the floor and the delete. */
  private async crowd(resource: string): Promise<void> {
    const { store } = this;
    const { workers = 8 } = this.options;
    for (let round = 0; round < ROUNDS; round += 1) {
      const { newest, prune } = await this.oldKey(`${resource}:${round}`);
      const names = Array.from(
        { length: workers },
        (_none, index) => `${resource}:${round}:${index}`,
      );
      // Refused where others raise the floor: then all the more the older one.
      const newer = names.map((name) => isRefused(store, store.claim(ticket(name, newest))));
      await Promise.all(newer);
      let isOver = false;
      const older = async (name: string, attempt: FenceStep): Promise<void> => {
        for (; !isOver; await nextTurn()) await attempt(store, name);
      };
      const attempts = [staleClaim(newest - 1n), staleWrite(newest - 2n)];
      const crowd = names.flatMap((name) => attempts.map((attempt) => older(name, attempt)));
      const pruned = sleep(this.pauseMs()).then(prune);
      await Promise.all([pruned.finally(() => (isOver = true)), ...crowd]);
    }
  }

  /** What the older one saw comes back, for the newer one's token is gone. */
  private async interleave(resource: string, gateMs: number): Promise<void> {
    const { newest, prune } = await this.oldKey(resource);
    const newer = ticket(resource, newest);
    const tickets = [ticket(resource, newest - 1n), ticket(resource, timeOf(0))] as const;
    await interleaveFenceWriters(this.store, tickets, gateMs, async (history) => {
      if (await history.claim(newer)) await history.readAndWrite(newer, noPause);
      await prune();
    });
  }
}
