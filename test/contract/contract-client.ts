import type { LockNames, ReleaseReply, WaitReply } from '../../lib/core/nodes/lock-node.ts';
import { joinRequest } from '../support/join-request.ts';
import { NodeDriver } from '../support/node-driver.ts';
import { eventually, type ContractHarness } from './contract-harness.ts';

/** R of every check that doesn't say otherwise. */
export const RETENTION_MS = 600_000;

/** Open node of a harness. */
export class ContractClient extends NodeDriver {
  private constructor(harness: ContractHarness) {
    const { markerName } = harness;
    // One of several: the word of a node is a vote, and no more.
    const configuration = '2 node1 node2 node3';
    super(harness.createNode(), { markerName, floorRetentionMs: RETENTION_MS, configuration });
  }

  /** A new connection on which nothing has been said. */
  static async connect(harness: ContractHarness): Promise<ContractClient> {
    const client = new ContractClient(harness);
    const join = joinRequest({ markerName: harness.markerName });
    client.node.open(client, { silenceLimitMs: 60_000, join });
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

  async untilOpened(times: number): Promise<void> {
    await eventually(
      `connection ${times}`,
      () => this.events.filter((event) => event === 'opened').length >= times,
    );
  }

  /** The end of an attempt that was not granted. */
  abandon(names: LockNames, holder: string, pass = true): Promise<ReleaseReply> {
    return this.release(names, holder, { granted: false, pass });
  }

  /** Stands in line for a lock that is to be kept for `graceMs` for holders which begin with `mark`. */
  stand(
    names: LockNames,
    mark: string,
    { ticket = 0, graceMs = 5_000, channel = `turns:${mark}`, lifeMs = 60_000 } = {},
  ): Promise<WaitReply> {
    const request = { names, member: `${mark} ${graceMs} ${channel}`, ticket, lifeMs };
    return this.ask((settle) => this.node.wait(request, settle));
  }
}

/** Start of most checks of one key: a client that joined without restart guard, and the time of its server. */
export async function oneKey(harness: ContractHarness, ...keys: string[]) {
  const names = harness.names(...(keys.length > 0 ? keys : ['a']));
  const [lock, floor] = names.pairs as [string, string];
  const client = await ContractClient.joined(harness);
  return { names, lock, floor, client, ballot: await harness.nowMicros() };
}
