import { EventSink, type LockEvent } from '../core/events.ts';
import { Configurations } from '../core/nodes/configuration.ts';
import { askAll, inspectKey, type AskedNodes, type LockInspection } from '../core/nodes/inspect.ts';
import { markOf, NodeNames } from '../core/nodes/node-names.ts';
import type { NodeFacts } from '../core/nodes/lock-node.ts';
import { listLocks, revokeKey } from '../core/nodes/operate.ts';
import { waitsForGuard } from '../core/nodes/service.ts';
import { resolveOptions } from '../core/options/resolve-options.ts';
import { parseIdentity, processText, type ProcessIdentity } from '../core/process-identity.ts';
import { systemEnvironment } from '../core/system-environment.ts';
import { checkNodes, type StartupFinding } from '../redis/preflight.ts';
import { RedisLockNode } from '../redis/redis-lock-node.ts';

/** Outcome of a command: what `--json` prints, what it prints otherwise, and the exit code. */
export interface Outcome {
  readonly json: unknown;
  readonly lines: readonly (readonly string[])[];
  readonly code: 0 | 1 | 3;
}

interface Tool extends AskedNodes {
  readonly sessions: readonly { readonly address: string; readonly node: RedisLockNode }[];
}

interface Reasons {
  readonly by?: string | undefined;
  readonly reason?: string | undefined;
}

export type Command = (tool: Tool, argument: string, given: Reasons) => Promise<Outcome>;

/** Connects to the nodes, takes part in nothing, and closes them again. @throws RedlockConfigError */
export async function withNodes(
  urls: readonly string[],
  keyPrefix: string,
  run: (tool: Tool) => Promise<Outcome>,
): Promise<Outcome> {
  const options = resolveOptions({ keyPrefix, identity: false, nodeTimeout: '3s' }, urls.length);
  const nodes = urls.map((url) => new RedisLockNode(url, { keyPrefix, option: '--node' }));
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
    const sessions = nodes.map((node) => ({ address: node.address, node }));
    return await run({ options, environment: systemEnvironment, sessions });
  } finally {
    await Promise.all(nodes.map((node) => node.close()));
  }
}

export const ls: Command = async (tool, prefix) => {
  const json = await listLocks(tool, prefix);
  const rest = json.isComplete ? [] : [['There may be more locks.']];
  const head = ['KEY', 'HELD SINCE', 'LEASE ENDS IN', 'BY'];
  return { json, lines: [head, ...json.locks.map(line), ...rest], code: 0 };
};

export const inspect: Command = async (tool, key) => {
  const json = await inspectKey(tool, key);
  const nodes = json.nodes.map(({ address, holder, remainingMs, failure }) => [
    address,
    failure?.message ?? (holder === null ? 'free' : `held for ${remainingMs} ms more`),
  ]);
  if (json.holder) return { json, lines: [line(json), ...nodes], code: 1 };
  const isFree = json.holder === null;
  return { json, lines: [[key, isFree ? 'free' : 'unknown'], ...nodes], code: isFree ? 0 : 3 };
};

export const waiters: Command = async (tool, key) => {
  const { locks, processes } = new NodeNames(tool.options.keyPrefix, [key]);
  const replies = await look(tool, async (client) => {
    const marks = (await client.zrange(`${locks[0]}#queue`, '0', '-1')).map(markOf);
    const kept = marks.length > 0 ? await client.mget(marks.map((mark) => processes + mark)) : [];
    return marks.map((mark, index) => ({ mark, process: parseIdentity(kept[index]) }));
  });
  const answers = replies.filter(Array.isArray) as { mark: string; process?: ProcessIdentity }[][];
  const known = answers.flat();
  const json = [...new Set(known.map(({ mark }) => mark))].map(
    (mark) => known.find((each) => each.mark === mark && each.process) ?? { mark },
  );
  const rows = json.map(({ mark, process }) => [mark, process ? processText(process) : 'unknown']);
  const code = answers.length < tool.options.quorum ? 3 : 0;
  return { json, lines: [['HOLDERS BEGIN', 'PROCESS'], ...rows], code };
};

export const revoke: Command = async (tool, key, { by, reason }) => {
  const json = await revokeKey(tool, key, by, reason);
  const end = `others get it in ${json.endsInMs} ms`;
  const state = json.holder === null ? [key, 'free: nothing was revoked'] : [...line(json), end];
  // A quorum of the nodes that were given may be none of those that its holder uses.
  const findings = configurationFindings(tool, await joined(tool));
  return { json, lines: [state, ...findings.map(row)], code: findings.length > 0 ? 1 : 0 };
};

export const doctor: Command = async (tool) => {
  const { keyPrefix, quorum } = tool.options;
  const facts = await askAll<NodeFacts>(tool, (node, settle) => node.examine(settle));
  const known = await joined(tool);
  const markers = known.map(([text]) => /^\S+ (\d+) (\w+) (\d+) /.exec(text ?? ''));
  const guards = markers.flatMap((marker) => marker?.[3] ?? []);
  const restartGuard = guards.length > 0 ? guards.some((ms) => ms !== '0') : facts.length > 1;
  const nodes = tool.sessions.map(({ address }, index) => ({ address, reply: facts[index]! }));
  const guarded = nodes.flatMap(({ address, reply }, index): StartupFinding[] => {
    const [, voteAfterMs, reign = ''] = markers[index] ?? [];
    const leftMs = Number(voteAfterMs) - Date.now();
    const isGuarded = reply.kind === 'facts' && reign.startsWith(reply.runId) && leftMs > 0;
    return isGuarded ? [{ severity: 'warning', address, message: waitsForGuard(leftMs) }] : [];
  });
  const findings = [
    ...checkNodes(nodes, { quorum, restartGuard, keyPrefix }),
    ...guarded,
    ...configurationFindings(tool, known),
  ];
  const answering = facts.filter(({ kind }) => kind === 'facts').length;
  const writing = facts.filter((each) => each.kind === 'facts' && !each.refusesWrites).length;
  const voting = writing - guarded.length;
  const message = `only ${voting} of ${facts.length} nodes vote now, and a lock needs ${quorum}: nobody gets one`;
  const json = [...(voting < quorum ? [{ severity: 'error', message } as const] : []), ...findings];
  const code = answering < quorum ? 3 : json.length > 0 ? 1 : 0;
  return { json, lines: json.length > 0 ? json.map(row) : [['nothing found']], code };
};

/** Marker and configurations that each node keeps. */
async function joined(tool: Tool): Promise<(readonly (string | null)[])[]> {
  const { marker } = new NodeNames(tool.options.keyPrefix, []);
  const kept = await look(tool, (client) => client.mget(marker, `${marker}:configurations`));
  return kept.map((reply) => (Array.isArray(reply) ? reply : []));
}

function row({ severity, address = 'all', message }: StartupFinding): string[] {
  return [severity, address, message];
}

/** Processes whose locks would not exclude those of the nodes that were given. */
function configurationFindings(
  { sessions, options }: Tool,
  kept: readonly (readonly (string | null)[])[],
): StartupFinding[] {
  const findings: StartupFinding[] = [];
  const say = (event: LockEvent) => {
    if (event.type !== 'configurations-differ') return;
    const { nodes, quorum } = event.other;
    const message = `processes that joined within a day use the nodes ${nodes.join(', ')} (quorum ${quorum}), and one lock could have two holders: give the same nodes here and in all processes`;
    findings.push({ severity: 'error', message });
  };
  const addresses = sessions.map(({ address }) => address);
  const events = new EventSink(say, () => undefined);
  const configurations = new Configurations(addresses, options.quorum, events);
  const sinceMs = Date.now() - 86_400_000;
  for (const [index, [, lines]] of kept.entries()) {
    const recent = (lines ?? '').split('\n').filter((text) => Number.parseInt(text) > sinceMs);
    const texts = recent.map((text) => text.slice(text.indexOf(' ') + 1));
    configurations.joined(index, texts);
  }
  return findings;
}

function look<Reply>(tool: Tool, send: Parameters<typeof RedisLockNode.prototype.look<Reply>>[0]) {
  return askAll<Reply>(tool, (node, settle) => (node as RedisLockNode).look(send, settle));
}

function line({ key, holder, acquiredAt, remainingMs, process, revoked }: LockInspection) {
  const by = process === undefined ? `holder ${holder}` : processText(process);
  const who = revoked === undefined ? by : `nobody (revoked ${revoked})`;
  return [key, acquiredAt?.toISOString() ?? 'unknown', `${remainingMs} ms`, who];
}
