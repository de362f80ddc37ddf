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
  const missing = rights.flatMap((right, index) => refusal(right, answers[index]));
  const info = String(answers[0]);
  const field = (name: string) => new RegExp(`^${name}:(.*)$`, 'm').exec(info)?.[1]?.trim() ?? '';
  return {
    kind: 'facts',
    runId: field('run_id'),
    version: field('redis_version'),
    role: field('role'),
    clusterEnabled: field('cluster_enabled') === '1',
    maxmemoryPolicy: field('maxmemory_policy'),
    appendOnly: field('aof_enabled') === '1',
    connectedReplicas: Number(field('connected_slaves')),
    missingRights: [...new Set(missing)],
  };
}

/** What the answer says of missing rights: an error, or the list that PROBE returns. */
function refusal(right: string, answer: unknown): string[] {
  const failures = Array.isArray(answer) ? answer : [];
  if (isErrorReply(answer) && !isNoScript(answer)) failures.push(`${right}: ${answer.message}`);
  return failures.filter((failure) => typeof failure === 'string' && !isCondition(failure));
}

/** The server refuses everybody at the moment: no matter of rights. */
function isCondition(message: string): boolean {
  return /\b(READONLY|MASTERDOWN|MISCONF|NOREPLICAS|OOM|LOADING|BUSY)\b/.test(message);
}
