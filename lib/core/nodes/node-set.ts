import { inspect } from 'node:util';
import type { Clock, Environment } from '../environment.ts';
import type { NodeCause } from '../errors.ts';
import type { LockEvent } from '../events.ts';
import { inModuleContext } from '../system-environment.ts';
import { inSeconds } from '../options/duration.ts';
import { FLOOR_RETENTION_MS, PROTOCOL_VERSIONS } from '../options/options.ts';
import type { ResolvedOptions } from '../options/resolve-options.ts';
import { configurationText, conflicting, parseConfiguration } from './configuration.ts';
import { Alarm, Deadlines } from './deadlines.ts';
import type { LinkSettings, LockNode } from './lock-node.ts';
import { markerName } from './node-names.ts';
import { NodeSession } from './node-session.ts';
import { QuorumWatch } from './quorum-watch.ts';

const SLOW_WARNING_PAUSE_MS = 60_000;
const MINIMUM_SILENCE_LIMIT_MS = 2_000;
const BEAT_MS = 1_000;
/** A smaller step of the wall clock against the monotonic one is drift. */
const NOTICED_STEP_MS = 20;
/** Time since boot comes in such steps. */
const BOOT_STEP_MS = 10;
/** Difference that two readings of it stay below where nothing was suspended. */
const BOOT_CLOCK_ERROR_MS = 25;

/** Actions of the layers above when something changes at the nodes. */
export interface NodeSetListener {
  /** Node has begun to vote, or answers again. */
  joined(): void;
  /** A lock is kept for this process at a node; with `keptMs` for another one, and this one is behind it. */
  turn(session: NodeSession, lockName: string, keptMs: number): void;
  /** A node reports turns from now on, and may have reported some before. */
  listening(session: NodeSession): void;
  /** The clocks moved: what is held should be proven to be held. */
  clockMoved(): void;
}

/** Message whose time runs from the moment at which its bytes were handed to the sockets. */
export interface Collected {
  sent(nowMs: number): void;
}

/** The nodes of one service with what is learnt about them; every operation works on it. */
export class NodeSet {
  readonly sessions: readonly NodeSession[];
  /** Votes that a lock needs. */
  readonly quorum: number;
  /** Whether a listener wants `acquired`, `extended` and `released`; otherwise these events are not built. */
  readonly hasOrdinaryListener: boolean;
  readonly options: ResolvedOptions;
  readonly environment: Environment;
  /** Name of the marker on every node. */
  readonly marker: string;
  /** Beginning of all holders of this service. */
  readonly mark: string;
  /** Deadlines of callers, of requests whose answer a caller awaits, and of nodes that owe an answer. */
  readonly answers: Deadlines;
  /** Deadlines of held locks and of work in the background; they don't keep a process alive. */
  readonly alarms: Deadlines;
  /** Number of releases that may still be confirmed. */
  openReleases = 0;
  /** Typical time until a quorum has answered; a guess until measured. */
  roundTripMs = 2;
  /** Time that the system was suspended, as far as it was noticed. */
  suspendedMs = 0;
  /** When a quorum of nodes last answered a try. */
  lastQuorumAtMs = Number.NEGATIVE_INFINITY;
  /** When a try for a lock last found no quorum, if none has found one since. */
  outageAtMs = Number.NEGATIVE_INFINITY;
  readonly #listener: NodeSetListener;
  readonly #configuration: string;
  /** Configurations of other processes that were reported. */
  readonly #conflicts = new Set<string>();
  #wallAheadMs: number;
  #bootAheadMs: number;
  readonly #collected: Collected[] = [];
  readonly #flushAll = this.flush.bind(this);
  #isFlushDue = false;
  #leaveExit: (() => void) | undefined;
  #measured = false;
  #warnedAtMs = Number.NEGATIVE_INFINITY;
  #hasReportedListener = false;
  readonly watch = new QuorumWatch(this);
  readonly #beat = new Alarm(() => this.#renew());
  #renewAtMs = 0;
  #turn = 0;

  constructor(
    nodes: readonly LockNode[],
    options: ResolvedOptions,
    environment: Environment,
    listener: NodeSetListener,
  ) {
    this.options = options;
    this.quorum = options.quorum;
    this.hasOrdinaryListener =
      options.onEvent !== undefined && options.onEvent.skipsOrdinary !== true;
    this.environment = environment;
    this.marker = markerName(options.keyPrefix);
    this.mark = environment.random.mark();
    this.#listener = listener;
    const addresses = nodes.map(({ address }) => address);
    this.#configuration = configurationText(addresses, options.quorum);
    const { clock } = environment;
    this.#wallAheadMs = clock.wallMicros() / 1000 - clock.monotonicMs();
    this.#bootAheadMs = leastBootAheadMs(clock);
    const nowMs = () => this.nowMs;
    this.answers = new Deadlines(environment, nowMs);
    this.alarms = new Deadlines(environment, nowMs, true);
    this.sessions = nodes.map((node, index) => new NodeSession(index, node, this, listener));
  }

  /** Monotonic milliseconds, with the time in which the system is known to have been suspended. Durations use nothing else. */
  get nowMs(): number {
    return this.environment.clock.monotonicMs() + this.suspendedMs;
  }

  /**
   * {@link nowMs} after a look at the other clocks, for what must not outlive a suspend: the servers were not suspended, so
   * keys have expired meanwhile. A suspend moves the wall clock against the monotonic one, which is cheap to see; only then
   * the clock since boot, which counts suspended time on Linux, is asked.
   */
  get checkedNowMs(): number {
    const { clock } = this.environment;
    const monotonicMs = clock.monotonicMs();
    const wallAheadMs = clock.wallMicros() / 1000 - monotonicMs;
    if (Math.abs(wallAheadMs - this.#wallAheadMs) > NOTICED_STEP_MS) {
      const leastMs = leastBootAheadMs(clock);
      const aheadMs = () => -clock.monotonicMs() + clock.sinceBootMs() + BOOT_STEP_MS;
      const missedMs = Math.min(aheadMs(), aheadMs()) - this.#bootAheadMs;
      if (missedMs > BOOT_CLOCK_ERROR_MS) {
        this.suspendedMs += missedMs;
        this.#bootAheadMs = leastMs;
      }
      // Waits for the end of the tick: a getter may have looked at the clock.
      this.environment.endOfTick(() => this.#clockMoved());
    }
    this.#wallAheadMs = wallAheadMs;
    return this.nowMs;
  }

  /** Says whether so many nodes have joined that a lock is possible; they may still be in quarantine. */
  get hasQuorum(): boolean {
    return this.sessions.filter(({ state }) => state === 'voting').length >= this.quorum;
  }

  /** When a quorum of the nodes that have joined is out of quarantine; infinite while too few have joined. */
  get quorumVotesAtMs(): number {
    const joined = this.sessions.filter(({ state }) => state === 'voting');
    const times = joined.map(({ votesAtMs }) => votesAtMs).sort((one, other) => one - other);
    return times[this.quorum - 1] ?? Number.POSITIVE_INFINITY;
  }

  /** A quorum has joined, and is not known to be silent. */
  get isAnswering(): boolean {
    const silent = this.sessions.filter(({ state, isSilent }) => state !== 'voting' || isSilent);
    return this.sessions.length - silent.length >= this.quorum;
  }

  /** Nodes that don't vote now, as far as that was reported, and why. */
  get missingVotes(): NodeCause[] {
    return this.sessions.flatMap(({ address, health, votesAtMs, state, isSilent }): NodeCause[] => {
      const leftMs = votesAtMs - this.nowMs;
      const refuses = state !== 'voting' ? 'unreachable' : isSilent ? 'timeout' : 'error';
      if (health.reported !== 'joined')
        return [{ address, reason: refuses, message: health.problem, elapsedMs: 0 }];
      const message = `may not vote for ${inSeconds(leftMs)} more (restart guard)`;
      return leftMs > 0 ? [{ address, reason: 'quarantined', message, elapsedMs: 0 }] : [];
    });
  }

  /** Says whether so many nodes are failing or in quarantine that no quorum votes. */
  get isQuorumAway(): boolean {
    const { nowMs } = this;
    const away = this.sessions.filter(
      ({ health: { reported }, votesAtMs }) =>
        reported === 'failing' || (reported === 'joined' && votesAtMs > nowMs),
    );
    return this.sessions.length - away.length < this.quorum;
  }

  /** Says whether too few nodes vote now, as far as that was reported. */
  get isQuorumMissing(): boolean {
    return this.sessions.length - this.missingVotes.length < this.quorum;
  }

  /** Channel on which nodes say whose turn it is. */
  get channel(): string {
    return `${this.options.keyPrefix}#turns:${this.mark}`;
  }

  open(): void {
    const { acquire, restartGuardMs } = this.options;
    const settings: LinkSettings = {
      silenceLimitMs: Math.max(2 * acquire.nodeTimeoutMs, MINIMUM_SILENCE_LIMIT_MS),
      join: {
        markerName: this.marker,
        restartGuardMs,
        floorRetentionMs: FLOOR_RETENTION_MS,
        versions: PROTOCOL_VERSIONS,
        configuration: this.#configuration,
      },
    };
    for (const session of this.sessions) session.open(settings);
    this.#leaveExit = this.environment.atExit(this.#flushAll);
    if (this.sessions.some(({ node }) => node.renew !== undefined)) this.#renew();
  }

  /**
   * Replaces the connections of the nodes in turn, looking each second, but of none while one is in quarantine. When it comes so
   * late that the process did not run, it replaces all: the network may have forgotten the connections.
   */
  #renew(): void {
    const { checkedNowMs: nowMs, sessions, options, environment } = this;
    const isLate = nowMs - this.#beat.dueMs > MINIMUM_SILENCE_LIMIT_MS;
    const isTurn =
      nowMs >= this.#renewAtMs && sessions.every(({ votesAtMs }) => votesAtMs <= nowMs);
    if (isTurn) {
      const pauseMs = options.maxConnectionAgeMs / sessions.length;
      this.#renewAtMs = nowMs + pauseMs * (0.75 + environment.random.fraction() / 2);
      this.#turn = (this.#turn + 1) % sessions.length;
    }
    for (const { index, node } of sessions)
      if (isLate || (isTurn && index === this.#turn)) node.renew?.();
    this.alarms.set(this.#beat, BEAT_MS, nowMs);
  }

  /** A node collects instead of writing: it is flushed when the present tick ends. `collected.sent` is called then. */
  flushLater(collected?: Collected): void {
    if (collected !== undefined) this.#collected.push(collected);
    if (this.#isFlushDue) return;
    this.#isFlushDue = true;
    this.environment.endOfTick(this.#flushAll);
  }

  /** Hands everything that was collected to the sockets now. */
  flush(): void {
    if (!this.#isFlushDue) return;
    this.#isFlushDue = false;
    for (const { node } of this.sessions) node.flush();
    const { nowMs } = this;
    for (const collected of this.#collected.splice(0)) collected.sent(nowMs);
  }

  /** A quorum answered after `elapsedMs`. */
  measured(elapsedMs: number, ttlMs: number, nowMs: number): void {
    // Because this process did not run beyond that, callers must not wait so long before a try, or end so early without one.
    const tripMs = Math.min(elapsedMs, this.options.acquire.nodeTimeoutMs);
    const differenceMs = tripMs - this.roundTripMs;
    // Longer ones are often pauses of this process, and one that waits longer than others for its turn never has it.
    if (!this.#measured) this.roundTripMs = tripMs;
    else this.roundTripMs += differenceMs / (differenceMs < 0 ? 2 : 8);
    this.#measured = true;
    if (elapsedMs <= ttlMs / 10) return;
    if (nowMs - this.#warnedAtMs < SLOW_WARNING_PAUSE_MS) return;
    this.#warnedAtMs = nowMs;
    this.emit({ type: 'slow-quorum', roundTripMs: elapsedMs, ttlMs });
  }

  /** Reports, once each, configurations of other processes with which two of them could hold one lock. */
  compareConfigurations(): void {
    const own = parseConfiguration(this.#configuration);
    // Nodes that have not joined yet may turn out to be among theirs, under another name.
    const inCommon = (text: string) =>
      this.sessions.filter(({ others }) => others?.includes(text) !== false).length;
    for (const { address, others = [] } of this.sessions) {
      for (const text of conflicting(own, others, inCommon)) {
        if (this.#conflicts.has(text)) continue;
        this.#conflicts.add(text);
        this.emit({ type: 'configurations-differ', address, own, other: parseConfiguration(text) });
      }
    }
  }

  /**
   * Runs the listener in the context in which this package was loaded, never in that of a request. One that throws, or rejects,
   * must not change what happens to a lock.
   */
  emit(event: LockEvent): void {
    inModuleContext(() => {
      try {
        const result: unknown = this.options.onEvent?.(event);
        // An async function is assignable to a listener.
        if (typeof result === 'object' && result !== null && 'then' in result)
          Promise.resolve(result).catch((error: unknown) => this.#listenerFailed(error));
      } catch (error) {
        this.#listenerFailed(error);
      }
      if ('address' in event || event.type === 'unavailable') this.watch.look(event);
    });
  }

  async close(): Promise<void> {
    this.flush();
    this.#leaveExit?.();
    await Promise.all(this.sessions.map((session) => session.close()));
    for (const deadlines of [this.answers, this.alarms]) deadlines.close();
  }

  #clockMoved(): void {
    this.#listener.clockMoved();
    for (const deadlines of [this.alarms, this.answers]) deadlines.callDue();
  }

  #listenerFailed(error: unknown): void {
    if (this.#hasReportedListener) return;
    this.#hasReportedListener = true;
    try {
      process.emitWarning(
        `A lock event listener (onEvent) failed; locks go on, and later failures are not reported. ${inspect(error)}`,
        { code: 'REDLOCK_LISTENER_FAILED' },
      );
    } catch {
      // Failure that cannot be shown, or warned of, must not end a lock either.
    }
  }
}

/**
 * Lead of the clock since boot, at the least: a pause between its reading and the other one makes it shorter, and hardly comes twice
 * in a row.
 */
function leastBootAheadMs(clock: Clock): number {
  const aheadMs = () => clock.sinceBootMs() - clock.monotonicMs();
  return Math.max(aheadMs(), aheadMs());
}
