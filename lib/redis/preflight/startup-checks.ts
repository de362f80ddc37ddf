import type { NodeFacts, NodeFailure } from '../../core/nodes/lock-node.ts';

/** Every command that is sent, by us or inside our scripts. With a database other than 0 also `select`. */
export const REQUIRED_COMMANDS: readonly string[] = Object.freeze([
  'info',
  'ping',
  'script|exists',
  'script|load',
  'evalsha',
  'eval',
  'time',
  'mget',
  'get',
  'exists',
  'set',
  'psetex',
  'pttl',
  'del',
  'publish',
  'subscribe',
  'unsubscribe',
]);

/** The rules of an ACL user that may do what a lock node needs, and nothing else. */
export function requiredAclRules(keyPrefix: string): string {
  const commands = REQUIRED_COMMANDS.map((command) => `+${command}`).join(' ');
  return `resetchannels ~${keyPrefix}* &${keyPrefix}* -@all ${commands}`;
}

/** One node and what `examine` said of it. */
export interface ExaminedNode {
  /** Host and port. */
  readonly address: string;
  readonly reply: NodeFacts | NodeFailure;
  /** The key prefix of the ioredis options or client of this node, if any. */
  readonly ignoredKeyPrefix?: string;
}

export interface StartupCheckOptions {
  /** Votes a lock needs. */
  readonly quorum: number;
  readonly restartGuard: boolean;
  /** In front of every lock key. */
  readonly keyPrefix: string;
  /** An unreachable node is an error although a quorum answers. @default false */
  readonly strict?: boolean;
}

export interface StartupFinding {
  /** `error`: locks would be unsafe or impossible. `warning`: safe only while nothing else goes wrong. */
  readonly severity: 'error' | 'warning';
  /** Host and port; absent when it concerns the set of nodes. */
  readonly address?: string;
  /** What is wrong, and the fix. */
  readonly message: string;
}

/** What is unsafe or risky in this set of servers: errors first, then in the order of the nodes; empty when all is well. */
export function checkNodes(
  nodes: readonly ExaminedNode[],
  options: StartupCheckOptions,
): StartupFinding[] {
  const findings = [
    ...checkCount(nodes),
    ...nodes.flatMap((node) => [...checkNode(node, options)]),
    ...checkReachable(nodes, options),
    ...checkDistinct(nodes),
  ];
  return [
    ...findings.filter(({ severity }) => severity === 'error'),
    ...findings.filter(({ severity }) => severity === 'warning'),
  ];
}

/** One report of all findings, a line each; an empty string when there are none. */
export function formatStartupReport(findings: readonly StartupFinding[]): string {
  if (findings.length === 0) return '';
  const errors = findings.filter(({ severity }) => severity === 'error').length;
  const lines = findings.map(
    ({ severity, address, message }) =>
      `  ${severity}: ${address === undefined ? '' : `${address}: `}${message}`,
  );
  return [
    `Redis servers for locks: ${count(errors, 'error')}, ${count(findings.length - errors, 'warning')}`,
    ...lines,
  ].join('\n');
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}

function* checkCount({ length }: readonly ExaminedNode[]): Generator<StartupFinding> {
  if (length === 0 || length % 2 === 1) return;
  const message = `${length} nodes survive as many failures as ${length - 1}, and one more can fail: use an odd number`;
  yield { severity: 'warning', message };
}

function* checkNode(
  { address, ignoredKeyPrefix = '', reply }: ExaminedNode,
  options: StartupCheckOptions,
): Generator<StartupFinding> {
  if (ignoredKeyPrefix !== '') {
    const [ignored, used] = [ignoredKeyPrefix, options.keyPrefix].map((name) =>
      JSON.stringify(name),
    );
    yield warning(
      address,
      `the keyPrefix ${ignored} of this connection is ignored; lock names start with ${used}: set the keyPrefix of the module instead, the same on all nodes`,
    );
  }
  if (reply.kind === 'failed') return;
  yield* checkKind(address, reply);
  yield* checkMemory(address, reply, options);
  for (const right of reply.missingRights) yield checkRight(address, right, options);
}

function* checkKind(
  address: string,
  { role, clusterEnabled, version, appendOnly, connectedReplicas }: NodeFacts,
): Generator<StartupFinding> {
  if (role !== '' && role !== 'master') {
    yield error(
      address,
      `is a replica: it refuses writes, and forgets locks when it is promoted; give an independent master`,
    );
  }
  if (clusterEnabled) {
    yield error(
      address,
      'runs in cluster mode, where the keys of a lock lie on different servers; give a server with cluster-enabled no',
    );
  }
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (version !== '' && (major < 6 || (major === 6 && minor < 2))) {
    yield error(address, `is Redis ${version}: use 6.2 or newer`);
  }
  // Before version 7 they go into the append-only file and to replicas.
  if (version !== '' && major < 7 && (appendOnly || connectedReplicas > 0)) {
    yield warning(
      address,
      `is Redis ${version}, where scripts survive a restart (${appendOnly ? 'appendonly yes' : 'it has replicas'}): behind a proxy or virtual IP that keeps client connections over a restart, locks are not safe; use 7.0 or newer, or connect to the server itself`,
    );
  }
}

/**
 * Locks and floors carry a TTL, so the volatile policies evict them as the allkeys ones do. Both are a warning, since
 * nothing is evicted while `maxmemory` is 0 or is not reached.
 */
function* checkMemory(
  address: string,
  { maxmemoryPolicy, appendOnly, runId }: NodeFacts,
  { restartGuard }: StartupCheckOptions,
): Generator<StartupFinding> {
  if (maxmemoryPolicy !== '' && maxmemoryPolicy !== 'noeviction') {
    yield warning(
      address,
      `may evict held locks when memory is full (maxmemory-policy ${maxmemoryPolicy}): set maxmemory-policy noeviction`,
    );
  }
  if (!restartGuard && !appendOnly && runId !== '') {
    yield warning(
      address,
      'forgets its locks when it restarts, and the restart guard is off: set appendonly yes with appendfsync always, or restartGuard: true',
    );
  }
}

function checkRight(
  address: string,
  right: string,
  { keyPrefix }: StartupCheckOptions,
): StartupFinding {
  return right.startsWith('PUBLISH: ')
    ? warning(
        address,
        `waiters will not be woken by a release, only by their back-off (${right}): grant +publish &${keyPrefix}*`,
      )
    : error(
        address,
        `a right is missing (${right}): grant the user ${requiredAclRules(keyPrefix)}`,
      );
}

function* checkReachable(
  nodes: readonly ExaminedNode[],
  { quorum, strict = false }: StartupCheckOptions,
): Generator<StartupFinding> {
  const reachable = nodes.filter(({ reply }) => reply.kind === 'facts').length;
  for (const { address, reply } of nodes) {
    if (reply.kind === 'facts') continue;
    const message = `can't be examined: ${reply.message}; ${reachable} of ${nodes.length} nodes answer, ${quorum} are needed`;
    yield { severity: strict || reachable < quorum ? 'error' : 'warning', address, message };
  }
}

/** Two names of one server are one vote counted twice. */
function* checkDistinct(nodes: readonly ExaminedNode[]): Generator<StartupFinding> {
  const firstWith = new Map<string, string>();
  for (const { address, reply } of nodes) {
    if (reply.kind !== 'facts' || reply.runId === '') continue;
    const first = firstWith.get(reply.runId);
    if (first === undefined) firstWith.set(reply.runId, address);
    else {
      yield error(
        address,
        `is the same server as ${first}, perhaps under another name or database: list every server once`,
      );
    }
  }
}

function error(address: string, message: string): StartupFinding {
  return { severity: 'error', address, message };
}

function warning(address: string, message: string): StartupFinding {
  return { severity: 'warning', address, message };
}
