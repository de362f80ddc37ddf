import { spawnSync } from 'node:child_process';
import { describe, expect, it } from '@jest/globals';
import { clusterFactory } from '../unit/core/support/cluster.ts';

const newCluster = clusterFactory();

const PROGRAM = `
import { Redlock } from './lib/core/redlock.ts';
import { createMemoryNodes } from './lib/testing/index.ts';
const redlock = new Redlock(createMemoryNodes(3), {
  restartGuard: false,
  onEvent: async ({ type }) => { throw new Error('listener of ' + type); },
});
redlock.open();
for (let round = 0; round < 10; round += 1) await redlock.withLock('a', () => undefined);
await redlock.close();
process.stdout.write('closed');
`;

describe('a listener', () => {
  it('that rejects does not end the process', () => {
    const loader = ['--import', './test/support/typescript-loader.mjs'];
    const { status, stdout } = spawnSync(
      process.execPath,
      ['--unhandled-rejections=strict', ...loader, '--input-type=module', '--eval', PROGRAM],
      { encoding: 'utf8', timeout: 25_000, env: { ...process.env, NODE_OPTIONS: '' } },
    );
    expect({ status, stdout }).toEqual({ status: 0, stdout: 'closed' });
  });

  it('of a lock that others took is called when the releases are on their way, so that it delays no other caller', async () => {
    const cluster = await newCluster();
    const releases: number[][] = [];
    const note = () => releases.push(first.nodes.map((node) => node.asked('release').length));
    const first = await cluster.process({
      onEvent: ({ type }) => type === 'lost' && void note(),
    });
    const lock = await cluster.settle(first.redlock.acquire('a'));
    lock.signal.addEventListener('abort', note);
    cluster.occupy('a', [0, 1], 60_000);
    await cluster.advance(1_100);
    expect(releases).toEqual([
      [1, 1, 1],
      [1, 1, 1],
    ]);
  });
});
