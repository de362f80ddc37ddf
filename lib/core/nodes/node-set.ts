import type { Environment } from '../environment.ts';
import { EventSink } from '../events.ts';
import { FLOOR_RETENTION_MS, PROTOCOL_VERSIONS } from '../options/options.ts';
import type { ResolvedOptions } from '../options/resolve-options.ts';
import { Configurations } from './configuration.ts';
import { Alarm, Deadlines, Outgoing, ServiceClock } from './deadlines.ts';
import type { LinkSettings, LockNode } from './lock-node.ts';
import { markerName } from './node-names.ts';
import { NodeSession } from './node-session.ts';
import type { NodeSetListener } from './node-session.ts';
import { Quorum } from './quorum.ts';
import type { ServiceParts } from './quorum.ts';

const MINIMUM_SILENCE_LIMIT_MS = 2_000;
const BEAT_MS = 1_000;

/** The nodes of one service with what is learnt about them; every operation works on it. */
export class NodeSet implements ServiceParts {
  readonly options: ResolvedOptions;
  readonly environment: Environment;
  readonly clock: ServiceClock;
  readonly answers: Deadlines;
  readonly alarms: Deadlines;
  readonly outgoing: Outgoing;
  readonly events: EventSink;
  readonly quorum: Quorum;
  readonly sessions: readonly NodeSession[];
  /** Beginning of all holders of this service. */
  readonly mark: string;
  readonly configurations: Configurations;

  constructor(
    nodes: readonly LockNode[],
    options: ResolvedOptions,
    environment: Environment,
    listener: NodeSetListener,
  ) {
    this.options = options;
    this.environment = environment;
    this.mark = environment.random.mark();
    const clockMoved = (): void => {
      listener.clockMoved();
      for (const deadlines of [this.alarms, this.answers]) deadlines.callDue();
    };
    // Waits for the end of the tick: a getter may have looked at the clock.
    this.clock = new ServiceClock(environment.clock, () => environment.endOfTick(clockMoved));
    const nowMs = () => this.clock.nowMs;
    this.answers = new Deadlines(environment, nowMs);
    this.alarms = new Deadlines(environment, nowMs, true);
    this.outgoing = new Outgoing(nodes, environment, this.clock);
    this.quorum = new Quorum(this);
    this.events = new EventSink(options.onEvent, (event) => this.quorum.look(event));
    const addresses = nodes.map(({ address }) => address);
    this.configurations = new Configurations(addresses, options.quorum, this.events);
    this.sessions = nodes.map((node, index) => new NodeSession(index, node, this, listener));
  }

  get channel(): string {
    return `${this.options.keyPrefix}#turns:${this.mark}`;
  }

  get linkSettings(): LinkSettings {
    const { acquire, keyPrefix, restartGuardMs } = this.options;
    return {
      silenceLimitMs: Math.max(2 * acquire.nodeTimeoutMs, MINIMUM_SILENCE_LIMIT_MS),
      join: {
        markerName: markerName(keyPrefix),
        restartGuardMs,
        floorRetentionMs: FLOOR_RETENTION_MS,
        versions: PROTOCOL_VERSIONS,
        configuration: this.configurations.text,
      },
    };
  }

  open(): void {
    for (const session of this.sessions) session.open();
    this.outgoing.open();
    if (this.sessions.some(({ node }) => node.renew !== undefined)) renewInTurn(this);
  }

  async close(): Promise<void> {
    this.outgoing.close();
    await Promise.all(this.sessions.map((session) => session.close()));
    for (const deadlines of [this.answers, this.alarms]) deadlines.close();
  }
}

/**
 * Replaces the connections of the nodes in turn, looking each second, but of none while one is in quarantine. When it comes so
 * late that the process did not run, it replaces all: the network may have forgotten the connections.
 */
function renewInTurn({ clock, sessions, options, environment, alarms }: NodeSet): void {
  let turnAtMs = 0;
  let turn = 0;
  const beat = new Alarm(look);
  look();

  function look(): void {
    const nowMs = clock.checkedNowMs;
    const isLate = nowMs - beat.dueMs > MINIMUM_SILENCE_LIMIT_MS;
    const isTurn = nowMs >= turnAtMs && sessions.every(({ votesAtMs }) => votesAtMs <= nowMs);
    if (isTurn) {
      const pauseMs = options.maxConnectionAgeMs / sessions.length;
      turnAtMs = nowMs + pauseMs * (0.75 + environment.random.fraction() / 2);
      turn = (turn + 1) % sessions.length;
    }
    for (const { index, node } of sessions)
      if (isLate || (isTurn && index === turn)) node.renew?.();
    alarms.set(beat, BEAT_MS, nowMs);
  }
}
