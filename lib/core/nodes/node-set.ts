import type { Environment } from '../environment.ts';
import type { ResolvedOptions } from '../options/resolve-options.ts';
import { Alarm } from '../deadlines.ts';
import type { LockNode } from './lock-node.ts';
import { NodeNames } from './node-names.ts';
import { NodeSession, type NodeSetListener } from './node-session.ts';
import { MINIMUM_SILENCE_LIMIT_MS, Service } from './service.ts';

const BEAT_MS = 1_000;

/** The nodes of one service with what is learnt about them; every operation works on it. */
export class NodeSet extends Service {
  readonly sessions: readonly NodeSession[];

  constructor(
    nodes: readonly LockNode[],
    options: ResolvedOptions,
    environment: Environment,
    listener: NodeSetListener,
  ) {
    super(nodes, options, environment, listener);
    this.sessions = nodes.map((node, index) => new NodeSession(index, node, this, listener));
  }

  open(): void {
    for (const session of this.sessions) session.open();
    this.outgoing.open();
    if (this.sessions.some(({ node }) => node.renew !== undefined)) renewInTurn(this);
  }

  /** Why a node can't have these keys; undefined where all can. */
  refusal(keys: readonly string[]): string | undefined {
    for (const { node } of this.sessions) {
      const why = node.refusal?.(new NodeNames(this.options.keyPrefix, keys));
      if (why !== undefined) return why;
    }
    return undefined;
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
