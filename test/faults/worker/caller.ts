import { setTimeout as sleep } from 'node:timers/promises';
import { isRedlockError } from '../../../lib/core/errors.ts';
import type { Lock } from '../../../lib/core/lock.ts';
import type { Redlock } from '../../../lib/core/redlock.ts';
import { SeededRandom } from '../../load/seeded-random.ts';
import type { LockRecorder } from '../../load/lock-recorder.ts';
import { historyNow } from '../../history/lock-history.ts';
import type { HistoryFile } from '../../history/history-file.ts';
import type { CampaignEvent } from '../campaign-event.ts';
import type { ResourceClient } from '../resource/resource-client.ts';
import type { ResourceReply, ResourceView } from '../resource/resource-protocol.ts';
import type { CampaignWorkerSettings } from './worker-settings.ts';

/** What the callers of one process share. */
export interface CallerTools {
  readonly settings: CampaignWorkerSettings;
  readonly redlock: Redlock;
  readonly resource: ResourceClient;
  readonly recorder: LockRecorder;
  readonly file: HistoryFile<CampaignEvent>;
  /** Called right before a holder writes, when its lock has just said that it is held. */
  beforeWrite(): void;
}

const VIEWS: readonly ResourceView[] = ['fenced', 'unfenced'];
/** How long a holder waits to be told of a loss it has noticed; much longer than the checker tolerates. */
const PATIENCE_MS = 500;

/** One caller: takes locks, adds one to the records under them, and lets go, for as long as `goOn` says. */
export class Caller {
  readonly #random: SeededRandom;
  #calls = 0;

  constructor(
    private readonly tools: CallerTools,
    private readonly index: number,
  ) {
    this.#random = new SeededRandom(tools.settings.seed + index);
  }

  async compete(goOn: () => boolean): Promise<void> {
    const { pauseMs } = this.tools.settings.load;
    while (goOn()) {
      await this.#useOnce();
      await sleep(this.#random.between(0, pauseMs));
    }
  }

  async #useOnce(): Promise<void> {
    const { redlock, settings } = this.tools;
    const keys = this.#chooseKeys();
    const waitMs = this.#random.pick(settings.load.waitsMs);
    const way = this.#random.fraction();
    const call = this.#asked(keys, waitMs);
    const calledAt = historyNow();
    let answered = false;
    const granted = (lock: Lock): void => {
      this.tools.recorder.granted(lock, calledAt);
      this.#answered(call, 'granted');
      answered = true;
    };
    try {
      if (way < 0.15) {
        await this.#useInside(keys, waitMs, granted, way < 0.08);
        return;
      }
      // Some locks are neither extended nor given back in time.
      const extend = way < 1 - settings.load.unextendedShare;
      const lock = await redlock.acquire(keys, { wait: waitMs, extend });
      granted(lock);
      await this.#hold(lock, false);
      this.tools.recorder.releasing(lock);
      await lock.release();
      this.#releaseAnswered(lock.token.holder);
    } catch (error) {
      if (!isRedlockError(error)) {
        this.#problem('raw-error', error);
        if (!answered) this.#answered(call, 'raw-error');
      } else if (!answered) this.#answered(call, error.code, error.message);
    }
  }

  /** With `withLock`, which releases by itself, also what was lost; then it rejects. */
  async #useInside(
    keys: readonly string[],
    waitMs: number,
    granted: (lock: Lock) => void,
    again: boolean,
  ): Promise<void> {
    let holder: string | undefined;
    const work = async (lock: Lock): Promise<void> => {
      holder = lock.token.holder;
      granted(lock);
      await this.#hold(lock, again);
      this.tools.recorder.releasing(lock);
    };
    try {
      await this.tools.redlock.withLock(keys, work, { wait: waitMs });
    } finally {
      if (holder !== undefined) this.#releaseAnswered(holder);
    }
  }

  /** Reads, works, checks, writes: what every holder of a lock does. */
  async #hold(lock: Lock, again: boolean): Promise<void> {
    const reads = await this.#each(lock, (view, key) =>
      this.tools.resource.read(view, key, lock.token),
    );
    await this.#work(lock);
    if (again) await this.#reenter(lock);
    if (!this.tools.recorder.step(lock)) {
      await sleep(PATIENCE_MS, undefined, { signal: lock.signal }).catch(() => undefined);
      return;
    }
    this.tools.beforeWrite();
    await this.#each(lock, (view, key) => {
      const read = reads.get(`${view} ${key}`)!;
      // Who was refused knows that it is stale; the unfenced view tells nobody.
      if (!read.accepted) return Promise.resolve(read);
      return this.tools.resource.write(view, key, lock.token, read.value + 1);
    });
  }

  async #each(
    lock: Lock,
    access: (view: ResourceView, key: string) => Promise<ResourceReply>,
  ): Promise<Map<string, ResourceReply>> {
    const replies = new Map<string, ResourceReply>();
    const all = VIEWS.flatMap((view) =>
      lock.keys.map(async (key) => {
        replies.set(`${view} ${key}`, await access(view, key));
      }),
    );
    await Promise.all(all);
    return replies;
  }

  async #work(lock: Lock): Promise<void> {
    const { ttlMs, load } = this.tools.settings;
    const isLong = this.#random.fraction() < load.longShare;
    const [shortest, longest] = load.holdMs;
    const durationMs = isLong
      ? ttlMs * this.#random.between(1.1, 1.8)
      : this.#random.between(shortest, longest);
    const until = historyNow() + durationMs;
    while (historyNow() < until && this.tools.recorder.step(lock)) {
      await sleep(Math.min(20, Math.max(1, until - historyNow())));
    }
  }

  async #reenter(outer: Lock): Promise<void> {
    const { redlock, recorder } = this.tools;
    if (!recorder.step(outer)) return;
    await redlock.withLock(outer.keys, async (inner) => {
      if (!recorder.reentered(outer, inner)) return;
      await sleep(2);
      recorder.left(outer);
    });
  }

  #chooseKeys(): string[] {
    const { keys, setShare } = this.tools.settings.load;
    const first = Math.floor(this.#random.fraction() * keys);
    const names = [`record-${first}`];
    if (keys > 1 && this.#random.fraction() < setShare) names.push(`record-${(first + 1) % keys}`);
    return names;
  }

  #asked(keys: readonly string[], waitMs: number): string {
    const { name } = this.tools.settings;
    this.#calls += 1;
    const call = `${name}.${this.index}.${this.#calls}`;
    this.tools.file.append({ type: 'asked', process: name, call, keys, at: historyNow(), waitMs });
    return call;
  }

  #answered(call: string, outcome: string, message?: string): void {
    const { name } = this.tools.settings;
    this.tools.file.append({
      type: 'answered',
      process: name,
      call,
      at: historyNow(),
      outcome,
      message,
    });
  }

  #releaseAnswered(holder: string): void {
    const { name } = this.tools.settings;
    this.tools.file.append({ type: 'release-answered', process: name, holder, at: historyNow() });
  }

  #problem(kind: 'raw-error', error: unknown): void {
    const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
    this.tools.file.append({
      type: 'problem',
      process: this.tools.settings.name,
      at: historyNow(),
      kind,
      message,
    });
  }
}
