import type { Environment, TimerHandle } from '../core/environment.ts';
import { parseConfiguration } from '../core/nodes/configuration.ts';
import type * as port from '../core/nodes/lock-node.ts';
import { NodeNames } from '../core/nodes/node-names.ts';
import { IDENTITY_LIFE_MS } from '../core/process-identity.ts';
import type { Fence } from '../fencing/fence.ts';
import { CallLine, notSent, type Command } from './call-line.ts';
import type { LockDatabase } from './lock-database.ts';
import { examineDatabase } from './preflight.ts';
import { lockTables, ONE_AT_A_TIME } from './schema.ts';
import { Turns, type ListeningClient } from './turns.ts';

/** An entry of an index takes a third of a page at most. */
const MOST_BYTES = 2_500;
/** A process that hears nothing asks as often as that whether it is its turn. */
const POLL_MS = 100;

/** A node in a PostgreSQL database, made by {@link postgresNode}. */
export interface PostgresNode extends port.LockNode {
  /** The fence of the same database, which `RedlockModule` uses where this is the only node and it is given no other. */
  readonly fence: Fence;
  /** Creates the tables and functions of the locks, and the fence's table: for a migration. It is safe to run again. */
  ddl(): string;
}

interface PostgresNodeSettings {
  readonly name: string;
  readonly listen?: (() => ListeningClient) | undefined;
}

interface Joined {
  /** Its vote is the grant. */
  readonly isSole: boolean;
  readonly retentionMs: number;
  /** The name of the database. */
  readonly server: string | undefined;
}

/** Who has opened the node. */
interface Service {
  readonly listener: port.LockNodeListener;
  readonly identity: port.LinkSettings['identity'];
}

/**
 * A PostgreSQL database behind the port of the algorithm. What a Redis server forgets with a restart it keeps, so it is never in
 * quarantine, and it is joined only to find out who else is there.
 *
 * Where it is the only node its vote is the grant, and the fence of the same database learns of that in the same commit. Among others
 * a vote may be given back, and must not put off the holder that the others have.
 */
export class PostgresLockNode implements PostgresNode {
  readonly address: string;
  facts: port.NodeFacts | undefined;
  readonly fence: Fence;
  readonly #database: LockDatabase;
  readonly #settings: PostgresNodeSettings;
  readonly #environment: Environment;
  readonly #line: CallLine;
  readonly #turns: Turns;
  #service: Service | undefined;
  /** What the last join said. */
  #joined: Joined = { isSole: false, retentionMs: 0, server: undefined };
  #beat: TimerHandle;

  constructor(database: LockDatabase, settings: PostgresNodeSettings, environment: Environment) {
    this.address = settings.name;
    this.fence = database.fence;
    this.#database = database;
    this.#settings = settings;
    this.#environment = environment;
    this.#line = new CallLine(database, environment, {
      up: () => this.#service?.listener.opened(),
      down: (message) => this.#service?.listener.closed(message),
      unreachable: (message) => this.#service?.listener.unreachable?.(message),
    });
    this.#turns = new Turns(environment, database.pglite ?? settings.listen, {
      heard: (payload) => this.#heard(payload),
      listening: () => this.#service?.listener.listening(),
      ask: (sql, parameters) => this.#line.ask(sql, parameters),
    });
  }

  ddl(): string {
    const { schema, fenceTable, fence } = this.#database;
    return [ONE_AT_A_TIME, fence.ddl(), lockTables(schema, fenceTable)].join('\n\n');
  }

  refusal({ locks }: port.LockNames): string | undefined {
    if (locks.some((name) => name.includes('\0'))) return 'PostgreSQL can store no NUL in a key';
    const isLong = locks.some((name) => Buffer.byteLength(name) > MOST_BYTES);
    return isLong
      ? `with its prefix, a key in PostgreSQL has at most ${MOST_BYTES} bytes`
      : undefined;
  }

  forService(): PostgresLockNode {
    return new PostgresLockNode(this.#database, this.#settings, this.#environment);
  }

  open(listener: port.LockNodeListener, { silenceLimitMs, identity }: port.LinkSettings): void {
    this.#service = { listener, identity };
    this.#line.open(silenceLimitMs);
  }

  join(request: port.JoinRequest, settle: (reply: port.JoinReply) => void): void {
    const { markerName: marker, configuration, versions, floorRetentionMs: retentionMs } = request;
    const isSole = parseConfiguration(configuration).nodes.length === 1;
    const [lowest, highest] = versions;
    const { name = `${marker} ${configuration}`, text: identity = null } =
      this.#service?.identity ?? {};
    const facts = { marker, configuration, lowest, highest, retentionMs, name, identity };
    const { server: known } = this.#joined;
    this.#ask({ do: 'join', ...facts, server: known }, (reply: port.JoinReply) => {
      if (reply.kind === 'joined') {
        // For as long as this process lives: a standby that takes over has the name of the database, too.
        const { server } = reply;
        this.#joined = { isSole, retentionMs, server };
        this.#keepJoined({ do: 'join', ...facts, server });
      }
      settle(reply);
    });
  }

  acquire(request: port.AcquireRequest, settle: (reply: port.AcquireReply) => void): boolean {
    const { names, holder, ballot, ttlMs } = request;
    const { isSole, retentionMs, server } = this.#joined;
    const fenced = isSole ? keysOf(names) : [];
    const vote = { locks: names.locks, fenced, holder, ballot, ttlMs, retentionMs, server };
    return this.#vote({ do: 'acquire', ...vote }, settle);
  }

  extend(request: port.ExtendRequest, settle: (reply: port.ExtendReply) => void): boolean {
    const { names, holder, ballot, ttlMs } = request;
    const { server } = this.#joined;
    const vote = { locks: names.locks, holder, ballot, ttlMs, server };
    return this.#vote({ do: 'extend', ...vote }, settle);
  }

  release(request: port.ReleaseRequest, settle: (reply: port.ReleaseReply) => void): boolean {
    const { names, holder, granted, pass, keepMs } = request;
    const end = { locks: names.locks, holder, granted, pass, keepMs, isSole: this.#joined.isSole };
    return this.#vote({ do: 'release', ...end }, settle);
  }

  wait(request: port.WaitRequest, settle: (reply: port.WaitReply) => void): boolean {
    const { names, member, ticket, lifeMs } = request;
    const [mark = '', grace] = member.split(' ');
    const listens = this.#turns.isListening;
    const graceMs = Number(grace) + (listens ? 0 : 2 * POLL_MS);
    const place = { locks: names.locks, mark, graceMs, ticket, lifeMs, listens };
    return this.#vote({ do: 'wait', ...place }, (reply: port.WaitReply) => {
      if (reply.kind === 'failed' || listens) return settle(reply);
      settle({ ...reply, freeInMs: Math.min(reply.freeInMs, POLL_MS) });
    });
  }

  flush(): void {
    this.#line.flush();
  }

  inspect({ names }: port.InspectRequest, settle: (reply: port.InspectReply) => void): void {
    this.#ask({ do: 'inspect', locks: names.locks, processes: names.processes }, settle);
  }

  revoke(request: port.RevokeRequest, settle: (reply: port.RevokeReply) => void): void {
    const { names, holder, value, leastMs, floor } = request;
    const word = { locks: names.locks, holder, value, leastMs: Math.ceil(leastMs), floor };
    this.#ask({ do: 'revoke', ...word }, settle);
  }

  list(request: port.ListRequest, settle: (reply: port.ListReply) => void): void {
    const { keyPrefix, keysBegin, most } = request;
    this.#ask({ do: 'list', begin: keyPrefix + keysBegin, most }, settle);
  }

  listen(channel: string): void {
    this.#turns.open(`redlock_${channel.slice(-8)}`);
  }

  examine(settle: (reply: port.NodeFacts | port.NodeFailure) => void): void {
    const ask = (sql: string) => this.#line.ask(sql);
    const look = (reply: port.NodeFailure) => {
      // The functions may be missing, which is a fact.
      if (reply.kind === 'failed' && reply.reason === 'unreachable') return settle(reply);
      void examineDatabase(ask, this.#database).then(
        (facts) => settle((this.facts = facts)),
        (error: unknown) => settle(notSent((error as Error).message)),
      );
    };
    // What was collected goes first.
    this.#ask({ do: 'inspect', locks: [] }, look);
  }

  renew(): void {
    void this.#line.renew();
  }

  async close(): Promise<void> {
    await Promise.all([this.#turns.close(), this.#line.close()]);
    // A join may be answered until here.
    this.#environment.timers.clear(this.#beat);
  }

  /** Says again, before that is out of date, that this process is there. A failure changes nothing. */
  #keepJoined(command: Command): void {
    const { timers } = this.#environment;
    timers.clear(this.#beat);
    const again = () => {
      this.#ask(command, () => undefined);
      this.#turns.proveAgain();
      this.#keepJoined(command);
    };
    this.#beat = timers.set(again, IDENTITY_LIFE_MS / 3, true);
  }

  #heard(payload: string): void {
    // Anyone may notify of anything.
    const [, keptMs, lockName] = /^(-1|\d{1,6}) (.+)$/s.exec(payload) ?? [];
    if (lockName !== undefined) this.#service?.listener.turn(lockName, Number(keptMs));
  }

  /** Collects a vote. */
  #vote(command: Command, settle: (reply: any) => void): boolean {
    this.#line.push(command, settle);
    return true;
  }

  #ask(command: Command, settle: (reply: any) => void): void {
    this.#line.push(command, settle);
    this.#line.flush();
  }
}

/** The keys of the fence: the names of the locks without their prefix. */
function keysOf({ marker, locks }: port.LockNames): readonly string[] {
  const prefixLength = marker.length - new NodeNames('', []).marker.length;
  return locks.map((name) => name.slice(prefixLength));
}
