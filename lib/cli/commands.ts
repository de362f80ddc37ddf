import { EventSink, type LockEvent } from '../core/events.ts';
import { Configurations } from '../core/nodes/configuration.ts';
import { askAll, inspectKey, type LockInspection } from '../core/nodes/inspect.ts';
import { markOf, NodeNames } from '../core/nodes/node-names.ts';
import type { NodeFacts } from '../core/nodes/lock-node.ts';
import { listLocks, outage, revokeKey } from '../core/nodes/operate.ts';
import { waitsForGuard } from '../core/nodes/service.ts';
import { parseIdentity, processText, type ProcessIdentity } from '../core/process-identity.ts';
import { checkNodes, type StartupFinding } from '../redis/preflight.ts';
import { look, type Tool } from './servers.ts';

/** The outcome of a command: what `--json` prints, what it prints otherwise, and the exit code. */
export interface Outcome {
  readonly json: unknown;
  readonly lines: readonly (readonly string[])[];
  readonly code: 0 | 1 | 3;
}

interface Reasons {
  readonly by?: string | undefined;
  readonly reason?: string | undefined;
}

export type Command = (tool: Tool, argument: string, given: Reasons) => Promise<Outcome>;

export const ls: Command = async (tool, prefix) => {
  const json = await listLocks(tool, prefix);
  const rest = json.isComplete ? [] : [['There may be more locks.']];
  const head = ['KEY', 'HELD SINCE', 'EXPIRES IN', 'BY'];
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
  const sinceMs = tool.environment.clock.monotonicMs();
  const replies = await look(tool, async (ask) => {
    const queue: string[] = await ask('zrange', `${locks[0]}#queue`, 0, -1);
    const marks = queue.map(markOf);
    const kept =
      marks.length > 0 ? await ask('mget', ...marks.map((mark) => processes + mark)) : [];
    return marks.map((mark, index) => ({ mark, process: parseIdentity(kept[index]) }));
  });
  const answers = replies.filter(Array.isArray) as { mark: string; process?: ProcessIdentity }[][];
  if (answers.length < tool.options.quorum)
    throw outage(tool, sinceMs, [key], replies, 'Fix these servers.');
  const known = answers.flat();
  const json = [...new Set(known.map(({ mark }) => mark))].map(
    (mark) => known.find((each) => each.mark === mark && each.process) ?? { mark },
  );
  const rows = json.map(({ mark, process }) => [mark, process ? processText(process) : 'unknown']);
  return { json, lines: [['HOLDERS BEGIN', 'PROCESS'], ...rows], code: 0 };
};

export const revoke: Command = async (tool, key, { by, reason }) => {
  const { endsInMs, ...found } = await revokeKey(tool, key, by, reason);
  // A quorum of the nodes that were given may be none of those that its holder uses.
  const findings = configurationFindings(tool);
  const isWhole = findings.length === 0;
  const end = isWhole
    ? `others get it in ${endsInMs} ms`
    : 'revoked on these servers only, so its holder may keep it';
  const state = found.holder === null ? [key, 'free: nothing was revoked'] : [...line(found), end];
  const json = { ...found, ...(isWhole ? { endsInMs } : { findings }) };
  return { json, lines: [state, ...findings.map(row)], code: isWhole ? 0 : 1 };
};

export const doctor: Command = async (tool) => {
  const { keyPrefix, quorum } = tool.options;
  const examined = await askAll<NodeFacts>(tool, (node, settle) => node.examine(settle));
  // A member of a cluster has said already that it has the locks.
  const facts = examined.map((reply) =>
    reply.kind === 'facts' && reply.clusterEnabled
      ? ({ ...reply, foundBy: 'cluster' } as const)
      : reply,
  );
  const markers = tool.sessions.map(({ kept: [text] }) =>
    /^\S+ (\d+) (\w+) (\d+) /.exec(text ?? ''),
  );
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
    ...configurationFindings(tool),
  ];
  const answering = facts.filter(({ kind }) => kind === 'facts').length;
  const writing = facts.filter((each) => each.kind === 'facts' && !each.refusesWrites).length;
  const voting = writing - guarded.length;
  const message = `only ${voting} of ${facts.length} servers give locks now, and a lock needs ${quorum}: nobody gets one`;
  // Where a wrong server was given, those that have the locks were not asked.
  const areOut = voting < quorum && !tool.sessions.some(({ refusal }) => refusal);
  const json = [...(areOut ? [{ severity: 'error', message } as const] : []), ...findings];
  const code = answering < quorum ? 3 : json.length > 0 ? 1 : 0;
  return { json, lines: json.length > 0 ? json.map(row) : [['nothing found']], code };
};

function row({ severity, address = 'all', message }: StartupFinding): string[] {
  return [severity, address, message];
}

/** The processes whose locks would not exclude those of the nodes that were given. */
function configurationFindings({ sessions, options }: Tool): StartupFinding[] {
  const findings: StartupFinding[] = [];
  const say = (event: LockEvent) => {
    if (event.type !== 'configurations-differ') return;
    const { nodes, quorum } = event.other;
    const message = `processes that connected in the last 24 hours use the nodes ${nodes.join(', ')} (quorum ${quorum}), and one lock could have two holders: give the same nodes here and in all processes`;
    findings.push({ severity: 'error', message });
  };
  const addresses = sessions.map(({ address }) => address);
  const events = new EventSink(say, () => undefined);
  const configurations = new Configurations(addresses, options.quorum, events);
  const sinceMs = Date.now() - 86_400_000;
  for (const [index, { kept }] of sessions.entries()) {
    const [, lines] = kept;
    const recent = (lines ?? '').split('\n').filter((text) => Number.parseInt(text) > sinceMs);
    const texts = recent.map((text) => text.slice(text.indexOf(' ') + 1));
    configurations.joined(index, texts);
  }
  return findings;
}

function line({ key, holder, acquiredAt, remainingMs, process, revoked }: LockInspection) {
  const by = process === undefined ? `holder ${holder}` : processText(process);
  const who = revoked === undefined ? by : `nobody (revoked ${revoked})`;
  return [key, acquiredAt?.toISOString() ?? 'unknown', `${remainingMs} ms`, who];
}
