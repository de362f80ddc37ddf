import type { LockEvent } from '../../../lib/core/events.ts';
import type { Lock } from '../../../lib/core/lock.ts';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
} from '../../../lib/core/nodes/lock-node.ts';
import { REDLOCK_DEFAULTS } from '../../../lib/core/options/options.ts';
import { RedisLockNode } from '../../../lib/redis/redis-lock-node.ts';
import type { HistoryFile } from '../../../test/history/history-file.ts';
import { historyNow } from '../../../test/history/lock-history.ts';
import { sourceOf } from '../../../test/support/clients.ts';
import { recordStalls } from '../../../test/history/record-stalls.ts';
import type { CampaignEvent, NodeEvent, ProblemEvent } from '../campaign-event.ts';
import type { MachineEnvironment } from './machine-environment.ts';
import type { WorkerSettings } from './worker-settings.ts';

type Unsigned<Event> = Event extends unknown ? Omit<Event, 'process'> : never;

/** Writes down what a process sees of its locks and nodes, each fact at once when it is known. */
export class LockRecorder {
  readonly #held = new Map<string, { readonly lock: Lock; readonly startedAt: number }>();
  readonly #addresses: readonly string[];
  readonly #process: string;

  constructor(
    private readonly file: HistoryFile<CampaignEvent>,
    private readonly environment: MachineEnvironment,
    {
      name,
      urls,
      notePath,
    }: Pick<WorkerSettings, 'name' | 'urls'> & Partial<Pick<WorkerSettings, 'notePath'>>,
  ) {
    this.#process = name;
    this.#addresses = urls.map((url) => new URL(url).host);
    recordStalls(file, name, notePath);
  }

  /** Receives the events of the lock service. */
  readonly listen = (event: LockEvent): void => {
    const at = this.environment.now();
    const { type } = event;
    if (type === 'extended') {
      const record = this.#held.get(nameOf(event.keys, event.token));
      if (!record) return;
      const validUntil = this.#validUntil(record.lock, record.startedAt);
      this.append({ type, holder: record.lock.token.holder, at, validUntil });
    } else if (type.startsWith('node-')) {
      const { address, reason } = event as unknown as { address: string; reason?: string };
      const change = type.slice('node-'.length) as NodeEvent['change'];
      this.append({ type: 'node', at, node: this.#addresses.indexOf(address), change, reason });
    }
  };

  append(event: Unsigned<CampaignEvent>): void {
    const { type, ...facts } = event;
    this.file.append({ type, process: this.#process, ...facts } as CampaignEvent);
  }

  problem(kind: ProblemEvent['kind'], error: unknown): void {
    const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
    this.append({ type: 'problem', at: this.environment.now(), kind, message });
  }

  /** First thing after a grant. `calledAt`: when the caller asked, for locks whose attempt is not known. */
  granted(lock: Lock, calledAt: number): void {
    const { holder, value: token } = lock.token;
    const startedAt = this.environment.attemptStartedAt(holder) ?? calledAt;
    const at = this.environment.now();
    const held = this.environment.still(at, () => lock.isHeld);
    // A lock that was lost on the way to us no longer says how long it was valid.
    const validUntil = held ? this.#validUntil(lock, startedAt) : at;
    const { keys } = lock;
    this.#held.set(nameOf(keys, token), { lock, startedAt });
    this.append({ type: 'granted', holder, keys, token, startedAt, at, validUntil, held });
    const lost = () => {
      const { reason } = lock.signal.reason as { reason: string };
      this.append({ type: 'lost', holder, at: this.environment.now(), reason });
      this.#held.delete(nameOf(keys, token));
    };
    if (lock.signal.aborted) lost();
    else lock.signal.addEventListener('abort', lost, { once: true });
  }

  /** The holder is about to do a piece of work; false when the lock says that it must not. */
  step(lock: Lock): boolean {
    const at = this.environment.now();
    const isHeld = this.environment.still(at, () => lock.isHeld);
    if (isHeld) this.append({ type: 'step', holder: lock.token.holder, at });
    return isHeld;
  }

  /** Last thing before a release. */
  releasing(lock: Lock): void {
    this.append({ type: 'released', holder: lock.token.holder, at: this.environment.now() });
    this.#held.delete(nameOf(lock.keys, lock.token.value));
  }

  /** The time that remains, with the clock at the start of the attempt, is the whole validity. */
  #validUntil(lock: Lock, startedAt: number): number {
    return startedAt + this.environment.still(startedAt, () => lock.remainingMs);
  }
}

function nameOf(keys: readonly string[], token: number): string {
  return `${token}:${keys.join()}`;
}

/** A server whose votes are written down when they arrive, also those that come too late to count. */
export class NotingNode extends RedisLockNode {
  constructor(
    url: string,
    private readonly index: number,
    private readonly recorder: LockRecorder,
  ) {
    super(sourceOf(url), REDLOCK_DEFAULTS.keyPrefix);
  }

  override acquire(request: AcquireRequest, settle: (reply: AcquireReply) => void): boolean {
    return super.acquire(request, this.#noting(request.holder, settle));
  }

  override extend(request: ExtendRequest, settle: (reply: ExtendReply) => void): boolean {
    return super.extend(request, this.#noting(request.holder, settle));
  }

  #noting<Reply extends AcquireReply | ExtendReply>(
    holder: string,
    settle: (reply: Reply) => void,
  ): (reply: Reply) => void {
    const askedAt = historyNow();
    const node = this.index;
    return (reply) => {
      const { kind } = reply;
      const facts = { holder, node, askedAt, at: historyNow() };
      if (kind === 'accepted' || kind === 'extended')
        this.recorder.append({ type: 'voted', ...facts });
      else if (kind === 'lost') this.recorder.append({ type: 'taken', ...facts });
      settle(reply);
    };
  }
}
