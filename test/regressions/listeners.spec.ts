import { spawnSync } from 'node:child_process';
import { getEventListeners } from 'node:events';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import type { LockEvent } from '../../lib/core/events.ts';
import { HeldLock } from '../../lib/core/holding/held-lock.ts';
import { Acquisition } from '../../lib/core/waiting/acquisition.ts';
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
  afterEach(() => void jest.restoreAllMocks());

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

  const thrown = { 'without text': Object.create(null), 'an error': new Error('no metrics') };
  it.each(Object.entries(thrown))(
    'that throws what is %s changes nothing, also where no warning can be given',
    async (_, what) => {
      const warning = jest.spyOn(process, 'emitWarning').mockImplementation(() => {
        throw new Error('no warnings here');
      });
      const cluster = await newCluster();
      const { redlock } = await cluster.process({
        onEvent: () => {
          throw what;
        },
      });
      const { signal } = new AbortController();
      const run = (wait: number) =>
        cluster.settle(redlock.withLock('a', () => 'ran', { signal, wait }));
      await expect(run(100)).resolves.toBe('ran');
      cluster.occupy('a', [0, 1], 60_000);
      await expect(run(100)).rejects.toMatchObject({ code: 'LOCK_BUSY' });
      const sinceMs = cluster.nowMs;
      await cluster.settle(redlock.drain(5_000));
      expect([cluster.nowMs - sinceMs, getEventListeners(signal, 'abort')]).toEqual([0, []]);
      expect(warning).toHaveBeenCalledTimes(1);
    },
  );
});

describe('whatever goes wrong between the last vote and the hand-over, nothing is held', () => {
  afterEach(() => void jest.restoreAllMocks());

  const fails = (): never => {
    throw new Error('no clock');
  };
  it.each([
    ['when the lock starts', () => jest.spyOn(HeldLock.prototype, 'start'), undefined],
    [
      'when the grant is reported',
      () => jest.spyOn(Acquisition.prototype, 'waitedMs', 'get'),
      undefined,
    ],
    [
      'with a token from elsewhere',
      () => jest.spyOn(Acquisition.prototype, 'waitedMs', 'get'),
      { issue: async () => 7 },
    ],
  ] as const)('%s', async (_, where, tokens) => {
    const cluster = await newCluster();
    const onEvent = (_event: LockEvent) => undefined;
    const { redlock } = await cluster.process({ onEvent, ...(tokens && { tokens }) });
    const { signal } = new AbortController();
    where().mockImplementationOnce(fails);
    const failed = redlock.acquire('a', { signal, wait: 100 });
    expect(await cluster.failure(failed)).toMatchObject({ message: 'no clock' });
    await cluster.advance(10);
    expect([redlock.heldKeys, cluster.holders('a')]).toEqual([[], 0]);
    const sinceMs = cluster.nowMs;
    await cluster.settle(redlock.drain(5_000));
    expect([cluster.nowMs - sinceMs, getEventListeners(signal, 'abort')]).toEqual([0, []]);
  });
});
