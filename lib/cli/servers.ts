import { askAll, type AskedNodes } from '../core/nodes/inspect.ts';
import type { NodeFailure } from '../core/nodes/lock-node.ts';
import { NodeNames } from '../core/nodes/node-names.ts';
import { resolveOptions } from '../core/options/resolve-options.ts';
import { systemEnvironment } from '../core/system-environment.ts';
import { createNode } from '../redis/create-node.ts';
import type { RedisLockNode } from '../redis/redis-lock-node.ts';

/** A server that the user gave. */
interface Server {
  readonly address: string;
  readonly node: RedisLockNode;
  /** Present where another server has the locks: every command gets it in place of an answer. */
  readonly refusal?: NodeFailure | undefined;
  /** The marker and the configurations that the server keeps; empty where it did not say. */
  readonly kept: readonly (string | null)[];
}

export interface Tool extends AskedNodes {
  readonly sessions: readonly Server[];
}

/** Connects to the servers, takes part in nothing, and closes the connections again. @throws RedlockConfigError */
export async function withServers<Result>(
  urls: readonly string[],
  keyPrefix: string,
  run: (tool: Tool) => Promise<Result>,
): Promise<Result> {
  const options = resolveOptions({ keyPrefix, identity: false, nodeTimeout: '3s' }, urls.length);
  const given = { keyPrefix, option: '--node' };
  const nodes = await Promise.all(urls.map((url) => createNode(url, given)));
  const ignore = () => undefined;
  const tried = nodes.map(
    (node) =>
      new Promise<void>((opened) => {
        const listener = { opened, unreachable: () => opened(), closed: ignore };
        node.open({ ...listener, turn: ignore, listening: ignore }, { silenceLimitMs: 60_000 });
      }),
  );
  await Promise.all(tried);
  try {
    const sessions = nodes.map((node) => ({ address: node.address, node, kept: [] }));
    return await run(await introduce({ options, environment: systemEnvironment, sessions }));
  } finally {
    await Promise.all(nodes.map((node) => node.close()));
  }
}

export function look<Reply>(
  tool: Tool,
  questions: Parameters<typeof RedisLockNode.prototype.look<Reply>>[0],
): Promise<(Reply | NodeFailure)[]> {
  return askAll<Reply>(tool, (node, settle) => (node as RedisLockNode).look(questions, settle));
}

/** Lets each server say what it is. */
async function introduce(tool: Tool): Promise<Tool> {
  const { marker } = new NodeNames(tool.options.keyPrefix, []);
  const replies = await look(tool, (ask) =>
    Promise.allSettled([ask('info'), ask('mget', marker, `${marker}:configurations`)]),
  );
  const sessions = tool.sessions.map((session, index) => {
    const reply = replies[index]!;
    if (!Array.isArray(reply)) return session;
    const [info, kept] = reply;
    const refused = kept.status === 'rejected' ? String((kept.reason as Error).message) : '';
    const message = misplacement(info.status === 'fulfilled' ? info.value : '', refused);
    const refusal = { kind: 'failed', nothingWritten: true, reason: 'error' } as const;
    return {
      ...session,
      kept: kept.status === 'fulfilled' ? kept.value : [],
      refusal: message === undefined ? undefined : { ...refusal, message },
    };
  });
  return { ...tool, sessions };
}

/** Says which server the user should give instead, where this one does not have the locks or has old ones. */
function misplacement(info: string, refused: string): string | undefined {
  const field = (pattern: RegExp) => pattern.exec(info)?.[1] ?? 'unknown';
  if (/^redis_mode:sentinel/m.test(info))
    return `it is a Sentinel, which has no locks: give the primary (${field(/^master0:.*\baddress=([^,\s]+)/m)})`;
  if (/^role:slave/m.test(info))
    return `it is a replica, whose locks may be old: give its primary (${field(/^master_host:(\S+)/m)}:${field(/^master_port:(\d+)/m)})`;
  if (/^(MOVED|ASK) /.test(refused)) return `${refused}: give that server, which has the locks`;
  if (/^(CLUSTERDOWN|TRYAGAIN) /.test(refused)) return refused;
  if (refused.startsWith('CROSSSLOT'))
    return 'it is a member of a cluster: give --key-prefix with the hash tag of the locks';
  return undefined;
}
