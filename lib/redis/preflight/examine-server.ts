import type { Redis } from 'ioredis';
import type { NodeFacts } from '../../core/nodes/lock-node.ts';
import { isErrorReply, isNoScript, orErrorReply } from '../commands/node-failure.ts';
import type { RedisConnection } from '../connection/redis-connection.ts';
import { PROBE } from '../scripts/probe.ts';

/**
 * Asks one server what the start-up checks want to know, and tries every command that we need.
 *
 * @param probeNames two names of the user's key prefix that no lock can have
 * @throws what ioredis throws when the connection is lost meanwhile
 */
export async function examineServer(
  connection: RedisConnection,
  probeNames: readonly string[],
): Promise<NodeFacts> {
  const keys = [probeNames.length, ...probeNames];
  const questions: Readonly<Record<string, (client: Redis) => Promise<unknown>>> = {
    info: (client) => client.info(),
    ping: (client) => client.ping(),
    'script|exists': (client) => client.script('EXISTS', PROBE.sha1),
    'script|load': (client) => client.script('LOAD', PROBE.text),
    evalsha: (client) => client.call('evalsha', [PROBE.sha1, ...keys]),
    eval: (client) => client.call('eval', [PROBE.text, ...keys]),
  };
  const asked = Object.values(questions).map((ask) => connection.ask(ask).catch(orErrorReply));
  const answers = await Promise.all(asked);
  const rights = Object.keys(questions);
  const said = rights.flatMap((right, index) => refusalsIn(right, answers[index]));
  const refusals = said.filter((each) => !isCondition(each));
  const [info, , , , probed] = answers;
  const mayConfigure = Array.isArray(probed) && probed[0] === 1;
  const field = (name: string) =>
    new RegExp(`^${name}:(.*)$`, 'm').exec(String(info))?.[1]?.trim() ?? '';
  return {
    kind: 'facts',
    runId: field('run_id'),
    version: field('redis_version'),
    role: field('redis_mode') === 'sentinel' ? 'sentinel' : field('role'),
    clusterEnabled: field('cluster_enabled') === '1' || refusals.some(isOfCluster),
    maxmemoryPolicy: field('maxmemory_policy'),
    appendOnly: field('aof_enabled') === '1',
    connectedReplicas: Number(field('connected_slaves')),
    idleTimeoutS: mayConfigure ? await idleTimeoutS(connection) : undefined,
    refusesWrites: said.find(isOfWrites)?.replace(/^[^:]*: (?=[A-Z]+ )/, ''),
    missingRights: [...new Set(refusals)].filter((each) => !isOfCluster(each)),
  };
}

async function idleTimeoutS(connection: RedisConnection): Promise<number> {
  const ask = (client: Redis) => client.config('GET', 'timeout');
  const answer: unknown = await connection.ask(ask).catch(orErrorReply);
  return (Array.isArray(answer) && Number(answer[1])) || 0;
}

/** What the answer says of what the server refuses: an error, or the list that PROBE returns. */
function refusalsIn(right: string, answer: unknown): string[] {
  const failures = Array.isArray(answer) ? answer : [];
  if (isErrorReply(answer) && !isNoScript(answer)) failures.push(`${right}: ${answer.message}`);
  return failures.filter((failure) => typeof failure === 'string');
}

/** Only a member of a cluster, or a proxy in front of one, says so; INFO may hide it. */
function isOfCluster(message: string): boolean {
  return /: (CLUSTERDOWN|CROSSSLOT|MOVED|ASK|TRYAGAIN) /.test(message);
}

/** The server answers, but would take no vote: its memory is full, it can't save, or its replicas are away. */
function isOfWrites(message: string): boolean {
  return /\b(MISCONF|NOREPLICAS|OOM)\b/.test(message);
}

/** The server refuses everybody at the moment: no matter of rights. */
function isCondition(message: string): boolean {
  return /\b(READONLY|MASTERDOWN|MISCONF|NOREPLICAS|OOM|LOADING|BUSY)\b/.test(message);
}
