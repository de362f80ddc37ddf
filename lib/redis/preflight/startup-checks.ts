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
    ...nodes.flatMap((node) => [...checkInput(node, options), ...checkServer(node, options)]),
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

function checkCount(nodes: readonly ExaminedNode[]): StartupFinding[] {
  if (nodes.length === 0 || nodes.length % 2 === 1) return [];
  return [
    warning(
      undefined,
      `${nodes.length} nodes survive as many failures as ${nodes.length - 1}, and one more can fail: use an odd number`,
    ),
  ];
}

function checkInput(
  { address, ignoredKeyPrefix }: ExaminedNode,
  { keyPrefix }: StartupCheckOptions,
): StartupFinding[] {
  if (ignoredKeyPrefix === undefined || ignoredKeyPrefix === '') return [];
  return [
    warning(
      address,
      `the keyPrefix ${JSON.stringify(ignoredKeyPrefix)} of this connection is ignored; lock names start with ${JSON.stringify(keyPrefix)}: set the keyPrefix of the module instead, the same on all nodes`,
    ),
  ];
}

function checkServer(
  { address, reply }: ExaminedNode,
  options: StartupCheckOptions,
): StartupFinding[] {
  if (reply.kind === 'failed') return [];
  return [
    ...checkKind(address, reply),
    ...checkScripts(address, reply),
    ...checkMemory(address, reply, options),
    ...reply.missingRights.map((right) => checkRight(address, right, options)),
  ];
}

function checkKind(
  address: string,
  { role, clusterEnabled, version }: NodeFacts,
): StartupFinding[] {
  const findings: StartupFinding[] = [];
  if (role !== '' && role !== 'master') {
    findings.push(
      error(
        address,
        `is a replica: it refuses writes, and forgets locks when it is promoted; give an independent master`,
      ),
    );
  }
  if (clusterEnabled) {
    findings.push(
      error(
        address,
        'runs in cluster mode, where the keys of a lock lie on different servers; give a server with cluster-enabled no',
      ),
    );
  }
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (version !== '' && (major < 6 || (major === 6 && minor < 2))) {
    findings.push(error(address, `is Redis ${version}: use 6.2 or newer`));
  }
  return findings;
}

/** Before version 7 scripts go into the append-only file and to replicas, so a restart does not make a server forget them. */
function checkScripts(
  address: string,
  { version, appendOnly, connectedReplicas }: NodeFacts,
): StartupFinding[] {
  const [major = 0] = version.split('.').map(Number);
  if (version === '' || major >= 7 || (!appendOnly && connectedReplicas === 0)) return [];
  return [
    warning(
      address,
      `is Redis ${version}, whose scripts survive a restart (${appendOnly ? 'appendonly yes' : 'it has replicas'}): behind a proxy or virtual IP that keeps connections over a restart it may vote too early; use 7.0 or newer, or connect directly`,
    ),
  ];
}

/**
 * Locks and floors carry a TTL, so the volatile policies evict them as the allkeys ones do. Both are a warning, since
 * nothing is evicted while `maxmemory` is 0 or is not reached.
 */
function checkMemory(
  address: string,
  { maxmemoryPolicy, appendOnly, runId }: NodeFacts,
  { restartGuard }: StartupCheckOptions,
): StartupFinding[] {
  const findings: StartupFinding[] = [];
  if (maxmemoryPolicy !== '' && maxmemoryPolicy !== 'noeviction') {
    findings.push(
      warning(
        address,
        `may evict held locks when memory is full (maxmemory-policy ${maxmemoryPolicy}): set maxmemory-policy noeviction`,
      ),
    );
  }
  if (!restartGuard && !appendOnly && runId !== '') {
    findings.push(
      warning(
        address,
        'forgets its locks when it restarts, and the restart guard is off: set appendonly yes with appendfsync always, or restartGuard: true',
      ),
    );
  }
  return findings;
}

function checkRight(
  address: string,
  right: string,
  { keyPrefix }: StartupCheckOptions,
): StartupFinding {
  if (right.startsWith('PUBLISH: ')) {
    return warning(
      address,
      `waiters will not be woken by a release, only by their back-off (${right}): grant +publish &${keyPrefix}*`,
    );
  }
  return error(
    address,
    `a right is missing (${right}): grant the user ${requiredAclRules(keyPrefix)}`,
  );
}

function checkReachable(
  nodes: readonly ExaminedNode[],
  { quorum, strict = false }: StartupCheckOptions,
): StartupFinding[] {
  const reachable = nodes.filter(({ reply }) => reply.kind === 'facts').length;
  const severity = strict || reachable < quorum ? 'error' : 'warning';
  return nodes.flatMap(({ address, reply }) =>
    reply.kind === 'facts'
      ? []
      : [
          {
            severity,
            address,
            message: `can't be examined: ${reply.message}; ${reachable} of ${nodes.length} nodes answer, ${quorum} are needed`,
          } as const,
        ],
  );
}

/** Two names of one server are one vote counted twice. */
function checkDistinct(nodes: readonly ExaminedNode[]): StartupFinding[] {
  const firstWith = new Map<string, string>();
  const findings: StartupFinding[] = [];
  for (const { address, reply } of nodes) {
    if (reply.kind !== 'facts' || reply.runId === '') continue;
    const first = firstWith.get(reply.runId);
    if (first === undefined) firstWith.set(reply.runId, address);
    else {
      findings.push(
        error(
          address,
          `is the same server as ${first}, perhaps under another name or database: list every server once`,
        ),
      );
    }
  }
  return findings;
}

function error(address: string | undefined, message: string): StartupFinding {
  return finding('error', address, message);
}

function warning(address: string | undefined, message: string): StartupFinding {
  return finding('warning', address, message);
}

function finding(
  severity: StartupFinding['severity'],
  address: string | undefined,
  message: string,
): StartupFinding {
  return address === undefined ? { severity, message } : { severity, address, message };
}
