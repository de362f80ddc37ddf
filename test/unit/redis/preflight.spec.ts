import { describe, expect, it } from '@jest/globals';
import type { NodeFacts, NodeFailure } from '../../../lib/core/nodes/lock-node.ts';
import {
  checkNodes,
  failoverPromises,
  formatStartupReport,
  type StartupCheckOptions,
} from '../../../lib/redis/preflight.ts';

const OPTIONS: StartupCheckOptions = { quorum: 2, restartGuard: true, keyPrefix: 'lock:' };
const DOWN: NodeFailure = {
  kind: 'failed',
  nothingWritten: true,
  reason: 'unreachable',
  message: 'not connected: connect ECONNREFUSED',
};

let runs = 0;

function facts(changes: Partial<NodeFacts> = {}): NodeFacts {
  return {
    kind: 'facts',
    runId: `run-${(runs += 1)}`,
    version: '7.2.4',
    role: 'master',
    clusterEnabled: false,
    maxmemoryPolicy: 'noeviction',
    appendOnly: false,
    connectedReplicas: 0,
    missingRights: [],
    ...changes,
  };
}

/** Three nodes, the second one with these replies. */
function check(reply: NodeFacts | NodeFailure, options: Partial<StartupCheckOptions> = {}) {
  const nodes = [facts(), reply, facts()].map((each, index) => ({
    address: `node${index}:6379`,
    reply: each,
  }));
  return checkNodes(nodes, { ...OPTIONS, ...options });
}

describe('start-up checks', () => {
  it('find nothing in three good servers', () => {
    const findings = check(facts());
    expect(findings).toEqual([]);
    expect(formatStartupReport(findings)).toBe('');
  });

  it.each([
    ['a replica', { role: 'slave' }, 'error', /replica.*independent primary/],
    ['a Sentinel', { role: 'sentinel', missingRights: ['eval: ERR x'] }, 'error', /is a Sentinel/],
    ['cluster mode', { clusterEnabled: true }, 'error', /give the whole cluster.*hash tag/],
    ['Redis 6.0', { version: '6.0.16' }, 'error', /6\.2 or newer/],
    ['Redis 5', { version: '5.0.7' }, 'error', /6\.2 or newer/],
    ['scripts in an AOF', { version: '6.2.14', appendOnly: true }, 'warning', /7\.0 or newer/],
    ['scripts in replicas', { version: '6.2.0', connectedReplicas: 1 }, 'error', /7\.0 or newer/],
    ['eviction of all keys', { maxmemoryPolicy: 'allkeys-lru' }, 'warning', /noeviction/],
    ['eviction of keys with TTL', { maxmemoryPolicy: 'volatile-ttl' }, 'warning', /noeviction/],
    [
      'a missing right',
      { missingRights: ['PSETEX: NOPERM x'] },
      'error',
      /PSETEX: NOPERM x.*\+psetex/,
    ],
    ...(['PUBLISH', 'SUBSCRIBE', 'ZPOPMIN'] as const).map(
      (command) =>
        [
          `no right to ${command}`,
          { missingTurnRights: [`${command}: NOPERM x`] },
          'warning',
          new RegExp(
            `out of order.*\\(${command}: NOPERM x\\): grant \\+${command.toLowerCase()} &lock:\\*$`,
          ),
        ] as const,
    ),
  ] as const)('find %s', (_, changes, severity, message) => {
    expect(check(facts(changes))).toEqual([
      { severity, address: 'node1:6379', message: expect.stringMatching(message) },
    ]);
  });

  it.each(['6.2.0', '6.10.1', '7.0.15', '8.0', '10.0.0'])('accept Redis %s', (version) => {
    expect(check(facts({ version }))).toEqual([]);
    const keeping = facts({ version, appendOnly: true, connectedReplicas: 1 });
    expect(check(keeping)).toHaveLength(version.startsWith('6') ? 1 : 0);
  });

  it('find missing persistence only while the restart guard is off', () => {
    const off = { restartGuard: false };
    expect(check(facts(), off)).toHaveLength(3);
    const nodes = [1, 2, 3].map((number) => ({
      address: `n${number}`,
      reply: facts({ appendOnly: true }),
    }));
    expect(checkNodes(nodes, { ...OPTIONS, ...off })).toEqual([]);
  });

  it.each(['6.2.0', '7.0.15', '8.0'])(
    'find replicas of Redis %s while the restart guard is off',
    (version) => {
      const [finding] = check(facts({ version, connectedReplicas: 2, appendOnly: true }), {
        restartGuard: false,
      }).filter(({ message }) => message.includes('failover'));
      expect(finding).toMatchObject({ severity: 'warning', address: 'node1:6379' });
      expect(finding?.message).toMatch(
        /has 2 replicas.*failover hands a held lock to a second holder.*failover: true/,
      );
    },
  );

  it.each([
    ['Redis 6.2, also before it has replicas', { version: '6.2.0' }, /7\.0 or newer/],
    ['more lag than was declared', { maxLagMs: 20_000 }, /20.*10000.*maxLag: '20s'/],
  ])('refuse with failover: %s', (_, changes, message) => {
    const found = { severity: 'error', message: expect.stringMatching(message) };
    expect(check(facts(changes), { maxLagMs: 10_000 })).toMatchObject([found]);
    expect(check(facts(changes))).toEqual([]);
  });

  it('say over which failovers a server with replicas keeps one holder', () => {
    const promised = (changes: Partial<NodeFacts>, maxLagMs?: number, restartGuard = true) => {
      const node = { address: 'a:1', reply: facts({ connectedReplicas: 2, ...changes }) };
      return [...failoverPromises([node], { ...OPTIONS, restartGuard, maxLagMs })].join();
    };
    const needs = { needsReplicas: true, maxLagMs: 10_000 };
    expect(promised({ connectedReplicas: 0 }, 10_000)).toBe('');
    expect(promised(needs, undefined, false)).toBe('');
    expect(promised(needs)).toMatch(/crash, but not in .*: for that set failover: true and/);
    expect(promised({}, 10_000)).toMatch(/crash, but not in .*: for that set min-\S+ 2\.$/);
    // The second replica may keep the old primary writing while the first one is promoted.
    expect(promised({ ...needs, minReplicas: 1 }, 10_000)).toMatch(/in which no replica stays/);
    expect(promised({ ...needs, minReplicas: 2 }, 10_000)).toMatch(
      /crash, and in a .*partition\.$/,
    );
    const unread = { needsReplicas: true, connectedReplicas: 1 };
    expect(promised(unread, 10_000)).toMatch(/partition, where min-\S+ is at most 10;/);
  });

  it('take an unreachable node as a warning while a quorum answers, and as an error when strict', () => {
    expect(check(DOWN)).toEqual([
      {
        severity: 'warning',
        address: 'node1:6379',
        message: expect.stringMatching(/ECONNREFUSED.*2 of 3/),
        isOutage: true,
      },
    ]);
    expect(check(DOWN, { strict: true })).toMatchObject([{ severity: 'error' }]);
    expect(check(DOWN, { quorum: 3 })).toMatchObject([{ severity: 'error' }]);
  });

  it('find the same server under two names', () => {
    const nodes = ['a:1', 'b:1', 'c:1'].map((address) => ({
      address,
      reply: facts({ runId: 'same' }),
    }));
    expect(checkNodes(nodes, OPTIONS)).toEqual([
      { severity: 'error', address: 'b:1', message: expect.stringContaining('same server as a:1') },
      { severity: 'error', address: 'c:1', message: expect.stringContaining('same server as a:1') },
    ]);
    // Facts that are unknown (no right to INFO) are not equal.
    const unknown = nodes.map((node) => ({ ...node, reply: facts({ runId: '', version: '' }) }));
    expect(checkNodes(unknown, OPTIONS)).toEqual([]);
  });

  it('advise against an even number, and name an ignored key prefix', () => {
    const nodes = [1, 2].map((number) => ({ address: `n${number}`, reply: facts() }));
    const findings = checkNodes([{ ...nodes[0]!, ignoredKeyPrefix: 'app:' }, nodes[1]!], OPTIONS);
    expect(findings).toEqual([
      { severity: 'warning', message: expect.stringContaining('odd number') },
      { severity: 'warning', address: 'n1', message: expect.stringContaining('"app:"') },
    ]);
  });

  it('are reported in one text, errors first', () => {
    const findings = check(facts({ role: 'slave', maxmemoryPolicy: 'allkeys-lru' }));
    const report = formatStartupReport([...findings]);
    expect(report.split('\n')).toEqual([
      'Servers for locks: 1 error, 1 warning',
      expect.stringMatching(/^ {2}error: node1:6379: is a replica/),
      expect.stringMatching(/^ {2}warning: node1:6379: may evict/),
    ]);
  });
});
