import type { Redis } from 'ioredis';
import type { NodeFacts } from '../../core/nodes/lock-node.ts';
import { isErrorReply, isNoScript } from '../commands/node-failure.ts';
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
  const questions: readonly (readonly [right: string, ask: (client: Redis) => Promise<unknown>])[] =
    [
      ['info', (client) => client.info()],
      ['ping', (client) => client.ping()],
      ['script|exists', (client) => client.script('EXISTS', PROBE.sha1)],
      ['script|load', (client) => client.script('LOAD', PROBE.text)],
      ['evalsha', (client) => client.call('evalsha', [PROBE.sha1, ...keys])],
      ['eval', (client) => client.call('eval', [PROBE.text, ...keys])],
    ];
  const answers = await Promise.all(questions.map(([, ask]) => answerOf(connection.ask(ask))));
  const missing = questions.flatMap(([right], index) => refusal(right, answers[index]!));
  const fields = parseInfo(answers[0]!.reply);
  return {
    kind: 'facts',
    runId: fields.get('run_id') ?? '',
    version: fields.get('redis_version') ?? '',
    role: fields.get('role') ?? '',
    clusterEnabled: fields.get('cluster_enabled') === '1',
    maxmemoryPolicy: fields.get('maxmemory_policy') ?? '',
    appendOnly: fields.get('aof_enabled') === '1',
    connectedReplicas: Number(fields.get('connected_slaves') ?? 0),
    missingRights: [...new Set(missing)],
  };
}

interface Answer {
  readonly reply?: unknown;
  readonly error?: Error;
}

/** The server's own refusal is an answer; anything else is thrown. */
async function answerOf(command: Promise<unknown>): Promise<Answer> {
  try {
    return { reply: await command };
  } catch (error) {
    if (isErrorReply(error)) return { error };
    throw error;
  }
}

/** What the answer says of missing rights: an error, or the list that PROBE returns. */
function refusal(right: string, { error, reply }: Answer): string[] {
  const failures = Array.isArray(reply) ? reply : [];
  if (error !== undefined && !isNoScript(error)) failures.push(`${right}: ${error.message}`);
  return failures.filter((failure) => typeof failure === 'string' && !isCondition(failure));
}

/** The server refuses everybody at the moment: no matter of rights. */
function isCondition(message: string): boolean {
  return /\b(READONLY|MASTERDOWN|MISCONF|NOREPLICAS|OOM|LOADING|BUSY)\b/.test(message);
}

function parseInfo(info: unknown): Map<string, string> {
  const fields = new Map<string, string>();
  if (typeof info !== 'string') return fields;
  for (const line of info.split('\n')) {
    const separator = line.indexOf(':');
    if (separator > 0) fields.set(line.slice(0, separator), line.slice(separator + 1).trim());
  }
  return fields;
}
