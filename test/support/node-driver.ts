import type {
  AcquireReply,
  ExtendReply,
  InspectReply,
  RevokeReply,
  JoinReply,
  JoinRequest,
  LockNames,
  LockNode,
  LockNodeListener,
  NodeFacts,
  NodeFailure,
  ReleaseReply,
  ReleaseRequest,
  WaitReply,
} from '../../lib/core/nodes/lock-node.ts';
import { replacedValue } from '../../lib/core/process-identity.ts';
import { eventually } from './eventually.ts';
import { joinRequest } from './join-request.ts';

/** The time in which nothing expires during a test. */
export const TTL_MS = 60_000;

/** A lock node with promises in place of callbacks, and a record of what its listener received. */
export class NodeDriver implements LockNodeListener {
  /** `opened`, and `closed: <message>`, in order. */
  readonly events: string[] = [];
  readonly turns: [lockName: string, keptMs: number][] = [];
  /** The number of times it began to receive turns, and was refused them. */
  listens = 0;
  /** The number of calls of any settle. */
  settled = 0;

  /** `joins`: changes to what its joins ask for. */
  protected constructor(
    readonly node: LockNode,
    private readonly joins: Partial<JoinRequest> = {},
  ) {}

  /** Opened, and connected unless `connected` is false. */
  static async open(
    node: LockNode,
    { connected = true, silenceLimitMs = 60_000 } = {},
  ): Promise<NodeDriver> {
    const driver = new NodeDriver(node);
    node.open(driver, { silenceLimitMs, join: joinRequest() });
    if (connected) await driver.untilEvents(1);
    return driver;
  }

  opened(): void {
    this.events.push('opened');
  }

  closed(message: string): void {
    this.events.push(`closed: ${message}`);
  }

  turn(lockName: string, keptMs: number): void {
    this.turns.push([lockName, keptMs]);
  }

  listening(): void {
    this.listens += 1;
  }

  async untilEvents(number: number): Promise<void> {
    await eventually(() => {
      if (this.events.length < number) throw new Error(`received ${JSON.stringify(this.events)}`);
    });
  }

  async untilTurn(lockName: string, keptMs = 0): Promise<void> {
    await eventually(() => {
      if (!this.turns.some(([name, kept]) => name === lockName && kept === keptMs))
        throw new Error(`no turn for ${lockName} in ${JSON.stringify(this.turns)}`);
    });
  }

  join(restartGuardMs = 0, changes: Partial<JoinRequest> = {}): Promise<JoinReply> {
    const request = joinRequest({ restartGuardMs, ...this.joins, ...changes });
    return this.ask((settle) => this.node.join(request, settle));
  }

  acquire(names: LockNames, holder: string, ballot: number, ttlMs = TTL_MS): Promise<AcquireReply> {
    return this.ask((settle) => this.node.acquire({ names, holder, ballot, ttlMs }, settle));
  }

  extend(names: LockNames, holder: string, ballot: number, ttlMs = TTL_MS): Promise<ExtendReply> {
    return this.ask((settle) => this.node.extend({ names, holder, ballot, ttlMs }, settle));
  }

  release(
    names: LockNames,
    holder: string,
    options: Partial<Pick<ReleaseRequest, 'granted' | 'pass' | 'keepMs'>> = {},
  ): Promise<ReleaseReply> {
    const request = { names, holder, granted: true, pass: true, ...options };
    return this.ask((settle) => this.node.release(request, settle));
  }

  wait(names: LockNames, mark: string, channel: string, ticket = 0): Promise<WaitReply> {
    const request = { names, member: `${mark} 100 ${channel}`, ticket, lifeMs: 10_000 };
    return this.ask((settle) => this.node.wait(request, settle));
  }

  /** Listens, and waits until it does. */
  async listen(channel: string): Promise<void> {
    this.node.listen(channel);
    await this.untilListening(1);
  }

  async untilListening(times: number): Promise<void> {
    await eventually(() => {
      if (this.listens < times) throw new Error(`listens ${this.listens} times`);
    });
  }

  revoke(names: LockNames, holder: string, leastMs = 0, floor?: number): Promise<RevokeReply> {
    const value = floor === undefined ? 'revoked:{"by":"a test"}' : replacedValue(holder);
    const channel = `turns:${holder.slice(0, 8)}`;
    const request = { names, holder, value, leastMs, channel, floor };
    return this.ask((settle) => this.node.revoke(request, settle));
  }

  inspect(names: LockNames): Promise<InspectReply> {
    return this.ask((settle) => this.node.inspect({ names }, settle));
  }

  examine(): Promise<NodeFacts | NodeFailure> {
    return this.ask((settle) => this.node.examine(settle));
  }

  /** The requests of one turn are written together, as the core does it. */
  protected ask<Reply>(send: (settle: (reply: Reply) => void) => void): Promise<Reply> {
    return new Promise((resolve) => {
      send((reply) => {
        this.settled += 1;
        resolve(reply);
      });
      queueMicrotask(() => this.node.flush());
    });
  }
}

let lastBallot = 0;

/** A proposal as a client makes it: its wall clock in microseconds, and never the same twice. */
export function ballotNow(): number {
  lastBallot = Math.max(lastBallot + 1, Date.now() * 1000);
  return lastBallot;
}
