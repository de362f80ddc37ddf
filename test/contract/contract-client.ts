import type {
  AcquireReply,
  ExtendReply,
  InspectReply,
  JoinReply,
  JoinRequest,
  LockNames,
  LockNode,
  LockNodeListener,
  NodeFacts,
  NodeFailure,
  ReleaseReply,
  WaitReply,
} from '../../lib/core/nodes/lock-node.ts';
import { eventually } from './contract-harness.ts';
import type { ContractHarness } from './contract-harness.ts';
import { joinRequest } from '../support/join-request.ts';

/** R of every check that doesn't say otherwise. */
export const RETENTION_MS = 600_000;
/** Long enough that nothing expires during a check. */
export const TTL_MS = 100_000;

export interface Turn {
  readonly lockName: string;
  readonly keptMs: number;
}

/** Open node: its commands as promises, and what its listener received. */
export class ContractClient implements LockNodeListener {
  readonly node: LockNode;
  readonly turns: Turn[] = [];
  listens = 0;
  opens = 0;
  closes = 0;
  readonly #markerName: string;
  #settles = 0;

  private constructor(node: LockNode, markerName: string) {
    this.node = node;
    this.#markerName = markerName;
  }

  /** A new connection on which nothing has been said. */
  static async connect(harness: ContractHarness): Promise<ContractClient> {
    const client = new ContractClient(harness.createNode(), harness.markerName);
    client.node.open(client, { silenceLimitMs: 60_000, join: client.#joinRequest() });
    await client.untilOpened(1);
    return client;
  }

  /** A new connection that joined a server without restart guard, unless `restartGuardMs` says otherwise. */
  static async joined(harness: ContractHarness, restartGuardMs = 0): Promise<ContractClient> {
    const client = await ContractClient.connect(harness);
    const reply = await client.join(restartGuardMs);
    if (reply.kind !== 'joined') throw new Error(`join: ${JSON.stringify(reply)}`);
    return client;
  }

  opened(): void {
    this.opens += 1;
  }

  closed(): void {
    this.closes += 1;
  }

  turn(lockName: string, keptMs: number): void {
    this.turns.push({ lockName, keptMs });
  }

  listening(): void {
    this.listens += 1;
  }

  /** Number of `settle` calls that came in all. */
  get settles(): number {
    return this.#settles;
  }

  async untilOpened(times: number): Promise<void> {
    await eventually(`connection ${times} of ${this.node.address}`, () => this.opens >= times);
  }

  join(
    restartGuardMs = 0,
    floorRetentionMs = RETENTION_MS,
    configuration = '1 node:6379',
  ): Promise<JoinReply> {
    const request = { ...this.#joinRequest(restartGuardMs, floorRetentionMs), configuration };
    return this.#reply((settle) => this.node.join(request, settle));
  }

  #joinRequest(restartGuardMs = 0, floorRetentionMs = RETENTION_MS): JoinRequest {
    return joinRequest({ markerName: this.#markerName, restartGuardMs, floorRetentionMs });
  }

  acquire(names: LockNames, holder: string, ballot: number, ttlMs = TTL_MS): Promise<AcquireReply> {
    return this.#reply((settle) => this.node.acquire({ names, holder, ballot, ttlMs }, settle));
  }

  extend(names: LockNames, holder: string, ballot: number, ttlMs = TTL_MS): Promise<ExtendReply> {
    return this.#reply((settle) => this.node.extend({ names, holder, ballot, ttlMs }, settle));
  }

  /** The end of a granted lock. */
  release(names: LockNames, holder: string, pass = true): Promise<ReleaseReply> {
    return this.#reply((settle) =>
      this.node.release({ names, holder, granted: true, pass }, settle),
    );
  }

  /** The end of an attempt that was not granted. */
  abandon(names: LockNames, holder: string, pass = true): Promise<ReleaseReply> {
    return this.#reply((settle) =>
      this.node.release({ names, holder, granted: false, pass }, settle),
    );
  }

  /** Stands in line for a lock that is to be kept for `graceMs` for holders which begin with `mark`. */
  wait(
    names: LockNames,
    mark: string,
    { ticket = 0, graceMs = 5_000, channel = `turns:${mark}`, lifeMs = 60_000 } = {},
  ): Promise<WaitReply> {
    const request = { names, member: `${mark} ${graceMs} ${channel}`, ticket, lifeMs };
    return this.#reply((settle) => this.node.wait(request, settle));
  }

  inspect(names: LockNames): Promise<InspectReply> {
    return this.#reply((settle) => this.node.inspect({ names }, settle));
  }

  examine(): Promise<NodeFacts | NodeFailure> {
    return this.#reply((settle) => this.node.examine(settle));
  }

  /** Receives the turns of holders that begin with `mark`. */
  async listen(mark: string): Promise<void> {
    this.node.listen(`turns:${mark}`);
    await eventually(`listening for ${mark}`, () => this.listens > 0);
  }

  async untilTurn(lockName: string, keptMs = 0): Promise<void> {
    await eventually(`turn for ${lockName}`, () =>
      this.turns.some((turn) => turn.lockName === lockName && turn.keptMs === keptMs),
    );
  }

  #reply<Reply>(send: (settle: (reply: Reply) => void) => void): Promise<Reply> {
    return new Promise((resolve) => {
      send((reply) => {
        this.#settles += 1;
        resolve(reply);
      });
      queueMicrotask(() => this.node.flush());
    });
  }
}

/** Start of most checks of one key: a client that joined without restart guard, and the time of its server. */
export async function oneKey(
  harness: ContractHarness,
): Promise<{ names: LockNames; client: ContractClient; ballot: number }> {
  const client = await ContractClient.joined(harness);
  return { names: harness.names('a'), client, ballot: await harness.nowMicros() };
}
