import type { NodeFacts, NodeFailure } from '../core/nodes/lock-node.ts';
import { isErrorReply, isNoScript, orErrorReply, withoutDigests } from './commands/node-failure.ts';
import type { RedisConnection } from './connection/redis-connection.ts';
import { PROBE } from './scripts.ts';
import type { Word } from './wire.ts';

const SENT = ['info', 'ping', 'script|load', 'evalsha', 'eval'];
const WRITES = ['set', 'psetex', 'pexpire', 'del'];
const IN_SCRIPTS = ['time', 'mget', 'get', 'exists', ...WRITES, 'pttl'];
const FOR_TURNS = ['zadd', 'zcard', 'zrange', 'zpopmin', 'publish', 'subscribe'];

/** List of every command that is sent, by us or inside our scripts. With a database other than 0 also `select`. */
export const REQUIRED_COMMANDS: readonly string[] = Object.freeze(
  [SENT, IN_SCRIPTS, FOR_TURNS].flat(),
);

/** The rules of an ACL user that may do what a lock node needs, and nothing else. */
export function requiredAclRules(keyPrefix: string): string {
  const commands = REQUIRED_COMMANDS.map((command) => `+${command}`).join(' ');
  return `resetchannels ~${keyPrefix}* &${keyPrefix}* -@all ${commands}`;
}

export interface ExaminedNode {
  readonly address: string;
  readonly reply: NodeFacts | NodeFailure;
  /** The key prefix of the ioredis options or client of this node, if any. */
  readonly ignoredKeyPrefix?: string;
}

export interface StartupCheckOptions {
  readonly quorum: number;
  readonly restartGuard: boolean;
  /** The lag that `failover` counts with; undefined without it. */
  readonly maxLagMs?: number | undefined;
  readonly keyPrefix: string;
  /** An unreachable node is an error although a quorum answers. @default false */
  readonly strict?: boolean;
}

export interface StartupFinding {
  /** `error`: locks would be unsafe or impossible. `warning`: safe only while nothing else goes wrong. */
  readonly severity: 'error' | 'warning';
  /** Absent when it concerns the set of nodes. */
  readonly address?: string;
  /** Problem, and the fix. */
  readonly message: string;
  /** The server is not there; what it is like is unknown. @default false */
  readonly isOutage?: boolean;
}

/** Faults and risks of this set of servers: errors first, then in the order of the nodes; empty when all is well. */
export function checkNodes(
  nodes: readonly ExaminedNode[],
  options: StartupCheckOptions,
): StartupFinding[] {
  const findings: StartupFinding[] = [];
  if (nodes.length % 2 === 0) {
    const message = `${nodes.length} servers survive no more failures than ${nodes.length - 1}: use an odd number`;
    findings.push({ severity: 'warning', message });
  }
  const { quorum, strict = false, keyPrefix } = options;
  const answering = nodes.filter(({ reply }) => reply.kind === 'facts').length;
  const firstWith = new Map<string, string>();
  for (const { address, reply, ignoredKeyPrefix = '' } of nodes) {
    const say = (severity: StartupFinding['severity'], messages: Iterable<string>) => {
      for (const message of messages) findings.push({ severity, address, message });
    };
    if (ignoredKeyPrefix !== '')
      say('warning', [
        `the keyPrefix ${JSON.stringify(ignoredKeyPrefix)} of this connection is ignored; lock names start with ${JSON.stringify(keyPrefix)}: set the keyPrefix of the module instead`,
      ]);
    if (reply.kind === 'failed') {
      const severity = strict || answering < quorum ? 'error' : 'warning';
      const message = `can't be examined: ${reply.message}; ${answering} of ${nodes.length} servers answer, ${quorum} are needed`;
      findings.push({ severity, address, message, isOutage: true });
      continue;
    }
    const { findings: own } = reply;
    if (own === undefined) {
      say('error', errorsOf(reply, options));
      say('warning', warningsOf(reply, options));
    } else for (const { severity, message } of own) say(severity, [message]);
    const first = firstWith.get(reply.runId);
    // Two names of one server are one vote counted twice.
    if (first !== undefined)
      say('error', [
        `is the same server as ${first}, perhaps under another name or database: list every server once`,
      ]);
    else if (reply.runId !== '') firstWith.set(reply.runId, address);
  }
  // Errors come first by name.
  return findings.sort((one, other) => one.severity.localeCompare(other.severity));
}

/** Says whether locks over these nodes would be unsafe, and not only impossible for now. */
export function isUnsafe(findings: readonly StartupFinding[]): boolean {
  return findings.some(({ severity, isOutage }) => severity === 'error' && isOutage !== true);
}

/** Report of all findings, a line each; an empty string when there are none. */
export function formatStartupReport(findings: readonly StartupFinding[]): string {
  if (findings.length === 0) return '';
  const errors = findings.filter(({ severity }) => severity === 'error').length;
  const lines = findings.map(
    ({ severity, address, message }) =>
      `\n  ${severity}: ${address === undefined ? '' : `${address}: `}${message}`,
  );
  return `Servers for locks: ${count(errors, 'error')}, ${count(findings.length - errors, 'warning')}${lines.join('')}`;
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}

function* errorsOf(facts: NodeFacts, options: StartupCheckOptions): Generator<string> {
  const { role, clusterEnabled, version, missingRights, connectedReplicas, servers = [] } = facts;
  const { maxLagMs } = options;
  if (role === 'sentinel')
    return yield 'is a Sentinel, which keeps no keys: give the Redis server itself';
  if (role !== '' && role !== 'master')
    yield 'is a replica: it rejects writes, and may not know all locks when it is promoted; give an independent primary';
  if (clusterEnabled && facts.foundBy !== 'cluster')
    yield "runs in cluster mode: give the whole cluster, { cluster: [{ host, port }] }, and a keyPrefix with a hash tag, such as '{lock}:'";
  if (isOlderThan(6, 2, version)) yield `is Redis ${version}: use 6.2 or newer`;
  const mayFailOver = maxLagMs !== undefined || (options.restartGuard && connectedReplicas > 0);
  if (mayFailOver && isOlderThan(7, 0, version))
    yield `is Redis ${version}, which copies its scripts to its replicas, so that the restart guard can't see a failover: use 7.0 or newer`;
  if (maxLagMs !== undefined && facts.maxLagMs !== undefined && facts.maxLagMs > maxLagMs)
    yield `has min-replicas-max-lag ${facts.maxLagMs / 1_000}, longer than the maxLag of failover (${maxLagMs} ms): give all processes failover: { maxLag: '${facts.maxLagMs / 1_000}s' }`;
  if (servers.length > 1)
    yield `leads to ${servers.length} servers (at ${[...new Set(servers)].join(', ')}), so that two processes could hold one lock, each on another one: give each server as a node of its own, by an address that leads to no other, such as the names of the pods of a StatefulSet (redis-0.redis, redis-1.redis)`;
  for (const right of missingRights)
    yield `a right is missing (${right}): grant the user ${requiredAclRules(options.keyPrefix)}`;
}

function* warningsOf(
  facts: NodeFacts,
  { keyPrefix, restartGuard, maxLagMs }: StartupCheckOptions,
): Generator<string> {
  const { version, appendOnly, connectedReplicas, maxmemoryPolicy, runId } = facts;
  // It has no data to lose.
  if (facts.role === 'sentinel') return;
  if (facts.refusesWrites !== undefined)
    yield `rejects all writes now, and so counts as down: ${facts.refusesWrites}`;
  // Scripts go into the append-only file and to replicas before version 7.
  const isReplaceable = connectedReplicas > 0 || facts.foundBy !== undefined;
  const isRefused = maxLagMs !== undefined || (restartGuard && connectedReplicas > 0);
  if (isOlderThan(7, 0, version) && !isRefused && (appendOnly || connectedReplicas > 0))
    yield `is Redis ${version}, where scripts survive a restart: behind a proxy that keeps client connections over a restart, locks are not safe; use 7.0 or newer, or connect to the server itself`;
  if (!restartGuard && isReplaceable)
    yield `has ${count(connectedReplicas, 'replica')}, and the restart guard is off here: a failover hands a held lock to a second holder; set failover: true`;
  // Locks and floors carry a TTL, so the volatile policies evict them as the allkeys ones do. This and the next are
  // warnings, since nothing is evicted while `maxmemory` is 0 or is not reached.
  if (maxmemoryPolicy !== '' && maxmemoryPolicy !== 'noeviction')
    yield `may evict held locks when memory is full (maxmemory-policy ${maxmemoryPolicy}): set maxmemory-policy noeviction`;
  if (!restartGuard && !appendOnly && runId !== '' && !isReplaceable)
    yield 'keeps locks in memory only, so that a restart of Redis may give a held lock to a second holder. That is fine for development; for production set appendonly yes and appendfsync always in Redis, or restartGuard: true here';
  for (const right of facts.missingTurnRights ?? [])
    yield `can't tell waiting processes that a lock is free, so they find out late and out of order: a right is missing (${right}): grant +${commandOf(right)} &${keyPrefix}*`;
}

/** Says, in a line for each server that may fail over, which faults its locks survive with one holder. */
export function* failoverPromises(
  nodes: readonly ExaminedNode[],
  { restartGuard, maxLagMs }: StartupCheckOptions,
): Generator<string> {
  for (const { address, reply } of nodes) {
    if (reply.kind === 'failed' || !restartGuard || reply.connectedReplicas === 0) continue;
    const { needsReplicas = false, connectedReplicas, minReplicas, maxLagMs: lagMs } = reply;
    const all = Math.max(connectedReplicas, minReplicas ?? 1);
    const promised = `Locks on ${address} keep one holder over failovers after a crash`;
    if (maxLagMs === undefined)
      yield `${promised}, but not in a network partition: for that set failover: true and min-replicas-to-write ${all}.`;
    else if (!needsReplicas)
      yield `${promised}, but not in a network partition: for that set min-replicas-to-write ${all}.`;
    else if ((minReplicas ?? 1) < connectedReplicas)
      yield `${promised}, and in a network partition in which no replica stays with the old primary: for every one set min-replicas-to-write ${all}.`;
    else
      yield `${promised}, and in a network partition${lagMs === undefined ? `, where min-replicas-max-lag is at most ${maxLagMs / 1_000}; this user may not read it (CONFIG GET)` : ''}.`;
  }
}

/** False where the version is unknown. */
function isOlderThan(major: number, minor: number, version: string): boolean {
  const [ofMajor = 0, ofMinor = 0] = version.split('.').map(Number);
  return version !== '' && (ofMajor < major || (ofMajor === major && ofMinor < minor));
}

function commandOf(right: string): string {
  return right.toLowerCase().split(':')[0]!;
}

/** Says whether only the order of those that wait needs it: locks are as safe without. */
function isForTurns(right: string): boolean {
  return FOR_TURNS.includes(commandOf(right));
}

/**
 * Asks one server what the start-up checks want to know, and tries every command that we need.
 *
 * @param probeNames two names of the user's key prefix that no lock can have
 * @throws what the client throws when the connection is lost meanwhile
 */
export async function examineServer(
  connection: RedisConnection,
  probeNames: readonly string[],
): Promise<NodeFacts> {
  const keys = [probeNames.length, ...probeNames];
  const questions: Readonly<Record<string, readonly Word[]>> = {
    info: ['info'],
    ping: ['ping'],
    'script|load': ['script', 'LOAD', PROBE.text],
    evalsha: ['evalsha', PROBE.sha1, ...keys],
    eval: ['eval', PROBE.text, ...keys],
  };
  const said: string[] = [];
  let info = '';
  const asked = Object.entries(questions).map(async ([right, words]) => {
    const answer = await connection.ask(...words).catch(orErrorReply);
    if (right === 'info') info = String(answer);
    const failures: unknown[] = Array.isArray(answer) ? answer : [];
    if (isErrorReply(answer) && !isNoScript(answer)) failures.push(`${right}: ${answer.message}`);
    said.push(...failures.map(String).map(withoutDigests));
  });
  await Promise.all(asked);
  const field = (name: string) => new RegExp(`^${name}:(.*)$`, 'm').exec(info)?.[1]?.trim() ?? '';
  const needsReplicas = field('min_slaves_good_slaves') !== '';
  // Servers without the setting are not asked: where this user may not, that leaves a line in their ACL log.
  const askSettings = () => connection.ask('config', 'get', 'min-replicas-*');
  const reply = needsReplicas ? await askSettings().catch(orErrorReply) : [];
  const settings = Array.isArray(reply) ? reply.map(String) : [];
  const setting = (name: string) => {
    const value = settings[settings.indexOf(name) + 1] ?? '';
    return /^\d+$/.test(value) ? Number(value) : undefined;
  };
  const maxLagS = setting('min-replicas-max-lag');
  const isDenied = (each: string) => ![CONDITION, CLUSTER].some((code) => code.test(each));
  const denied = [...new Set(said)].filter(isDenied);
  return {
    kind: 'facts',
    runId: field('run_id'),
    version: field('redis_version'),
    role: /^(?:redis|server)_mode:sentinel/m.test(info) ? 'sentinel' : field('role'),
    clusterEnabled: field('cluster_enabled') === '1' || said.some((each) => CLUSTER.test(each)),
    maxmemoryPolicy: field('maxmemory_policy'),
    appendOnly: field('aof_enabled') === '1',
    connectedReplicas: Number(field('connected_slaves')),
    needsReplicas,
    minReplicas: setting('min-replicas-to-write'),
    maxLagMs: maxLagS === undefined ? undefined : maxLagS * 1_000,
    refusesWrites: said.find((each) => NO_WRITES.test(each))?.replace(/^[^:]*: (?=[A-Z]+ )/, ''),
    missingRights: denied.filter((each) => !isForTurns(each)),
    missingTurnRights: denied.filter(isForTurns),
  };
}

/** An error that only a member of a cluster, or a proxy in front of one, gives; INFO may hide that. */
const CLUSTER = /: (CLUSTERDOWN|CROSSSLOT|MOVED|ASK|TRYAGAIN) /;

/** The server answers, but would take no vote: its memory is full, it can't save, or its replicas are away. */
const NO_WRITES = /\b(MISCONF|NOREPLICAS|OOM)\b/;

/** The server refuses everybody at the moment: no matter of rights. */
const CONDITION = /\b(READONLY|MASTERDOWN|MISCONF|NOREPLICAS|OOM|LOADING|BUSY)\b/;
