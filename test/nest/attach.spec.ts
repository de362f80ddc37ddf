import 'reflect-metadata';
import { getEventListeners } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  Fenced,
  LockService,
  type CallTrace,
  type LockTelemetry,
  type RedlockModuleOptions,
} from '../../lib/index.ts';
import { createMemoryNodes, occupy } from '../../lib/testing/index.ts';
import { closeAll, startModule } from './support/applications.ts';
import { Gate } from './support/critical-section.ts';

type Work = () => unknown;

@Injectable()
class Reports {
  built = 0;

  constructor(readonly locks: LockService) {}

  @Fenced('report:{0}', { onBusy: 'attach', signal: (_id, _work, signal) => signal })
  async build(_id: string, work: Work, _signal?: AbortSignal): Promise<unknown> {
    this.built += 1;
    return work();
  }

  @Fenced('report:{0}', { onBusy: 'attach' })
  async remove(_id: string): Promise<unknown> {
    return 'removed';
  }

  @Fenced('summary:{0}', { onBusy: 'attach' })
  async summarize(_id: string, work: Work): Promise<unknown> {
    return work();
  }
}

async function start(options: Partial<RedlockModuleOptions> = {}) {
  const nodes = createMemoryNodes(3);
  const module = await startModule(
    { providers: [Reports] },
    { nodes, ttl: '1h', wait: '1h', ...options },
  );
  const reports = module.get(Reports);
  return { reports, locks: reports.locks, nodes };
}

const never = () => new Promise<never>(() => undefined);
/** What a call came to, or that it has not ended although everything that could happen has. */
const stateOf = (call: Promise<unknown>) =>
  Promise.race([
    call.catch((error: unknown) => error),
    setImmediate().then(() => setImmediate('waits')),
  ]);

afterEach(closeAll);

describe("calls with onBusy: 'attach'", () => {
  it('get the result of the one that runs for their key, the very same, and later ones a new one', async () => {
    const { reports } = await start();
    const gate = new Gate();
    const build = () => reports.build('1', () => gate.opened.then(() => ({ pages: 3 })));
    const first = build();
    await setImmediate();
    const others = [build(), build()];
    const other = await reports.build('2', () => 'another');
    gate.open();
    const results = await Promise.all([first, ...others]);
    expect(results).toEqual([{ pages: 3 }, results[0], results[0]]);
    expect(new Set(results).size).toBe(1);
    expect([other, await build(), reports.built]).toEqual(['another', { pages: 3 }, 3]);
  });

  it('get its very error, and later ones run again', async () => {
    const { reports } = await start();
    const error = new Error('own');
    const fail = () => reports.build('1', () => Promise.reject(error));
    const outcomes = await Promise.allSettled([fail(), fail(), fail()]);
    expect(outcomes.map((each) => Reflect.get(each, 'reason'))).toEqual([error, error, error]);
    expect(await reports.build('1', () => 'built')).toBe('built');
    expect(reports.built).toBe(2);
  });

  it('wait for other processes as one call, which runs once for all', async () => {
    const { reports, locks, nodes } = await start();
    const other = await occupy(nodes, 'report:1');
    const calls = ['a', 'b', 'c'].map((each) => reports.build('1', () => each));
    await setImmediate();
    expect(locks.held().waiting).toMatchObject([
      { where: 'Reports.build', template: 'report:{0}' },
    ]);
    await other.release();
    expect(await Promise.all(calls)).toEqual(['a', 'a', 'a']);
  });

  it('never get the result of another method, whose lock they wait for', async () => {
    const { reports } = await start();
    const gate = new Gate();
    const building = reports.build('1', () => gate.opened);
    await setImmediate();
    const removing = reports.remove('1');
    expect(await stateOf(removing)).toBe('waits');
    gate.open();
    expect(await removing).toBe('removed');
    await building;
  });

  it('never get the result of another instance, which may be that of another request', async () => {
    const { reports, locks } = await start();
    const other = Object.assign(Object.create(reports), { built: 0 });
    const gate = new Gate();
    const first = reports.build('1', () => gate.opened.then(() => 'first'));
    const second = other.build('1', () => 'second');
    gate.open();
    expect(await Promise.all([first, second])).toEqual(['first', 'second']);
    expect(locks.held().waiting).toEqual([]);
  });

  it('end by their own signal alone, and the others go on', async () => {
    const { reports, nodes } = await start();
    const other = await occupy(nodes, 'report:1');
    const [first, second, third] = [1, 2, 3].map(() => new AbortController()) as [
      AbortController,
      AbortController,
      AbortController,
    ];
    const gate = new Gate();
    const calls = [first, second, third].map(({ signal }) =>
      reports.build('1', () => gate.opened.then(() => 'built'), signal),
    );
    await setImmediate();
    first.abort('first left');
    await expect(calls[0]).rejects.toBe('first left');
    await other.release();
    await setImmediate();
    second.abort('second left');
    await expect(calls[1]).rejects.toBe('second left');
    gate.open();
    expect(await calls[2]).toBe('built');
    expect(getEventListeners(third.signal, 'abort')).toEqual([]);
    expect(reports.built).toBe(1);
  });

  it('wait no longer when all of them have left, and one that comes then waits for itself', async () => {
    const { reports, locks, nodes } = await start();
    const other = await occupy(nodes, 'report:1');
    const left = new AbortController();
    const calls = [1, 2].map(() => reports.build('1', never, left.signal));
    await setImmediate();
    left.abort('left');
    const next = reports.build('1', () => 'built', new AbortController().signal);
    for (const call of calls) await expect(call).rejects.toBe('left');
    await setImmediate();
    const last = reports.build('1', never);
    expect(locks.held().waiting).toHaveLength(1);
    await other.release();
    expect([await next, await last, reports.built]).toEqual(['built', 'built', 1]);
  });

  it('attach to the work that runs although those before have left', async () => {
    const { reports } = await start();
    const gate = new Gate();
    const left = new AbortController();
    const work = () => gate.opened.then(() => 'built');
    const first = reports.build('1', work, left.signal);
    await setImmediate();
    left.abort('left');
    await expect(first).rejects.toBe('left');
    const next = reports.build('1', never);
    gate.open();
    expect([await next, reports.built]).toEqual(['built', 1]);
  });

  it('are ordinary calls inside of a lock: refused for its key, and never two that wait for each other', async () => {
    const { reports } = await start({ wait: 0 });
    const inside = reports.build('1', () => reports.build('1', never));
    await expect(inside).rejects.toMatchObject({ code: 'FENCED_USAGE' });
    const [one, two] = [new Gate(), new Gate()];
    const calls = [
      reports.build('1', async () => {
        one.open();
        await two.opened;
        return reports.summarize('1', () => 'summary');
      }),
      reports.summarize('1', async () => {
        two.open();
        await one.opened;
        return reports.build('1', never);
      }),
    ];
    const outcomes = await Promise.allSettled(calls);
    expect(outcomes.map(({ status }) => status)).toContain('rejected');
  });

  it('of withLock share by keys, in whatever order they are given', async () => {
    const { locks } = await start();
    const gate = new Gate();
    const attach = { onBusy: 'attach' } as const;
    const first = locks.withLock(['a', 'b'], () => gate.opened.then(() => 'first'), attach);
    const second = locks.withLock(['b', 'a'], () => 'second', attach);
    const ordinary = locks.withLock(['b', 'a'], () => 'ordinary');
    gate.open();
    expect(await Promise.all([first, second, ordinary])).toEqual(['first', 'first', 'ordinary']);
  });

  it('are checked like others, also those that would attach', async () => {
    const { locks } = await start();
    const gate = new Gate();
    const first = locks.withLock('a', () => gate.opened, { onBusy: 'attach' });
    const wrong = locks.withLock('a', never, { onBusy: 'attach', wait: -1 });
    await expect(wrong).rejects.toMatchObject({ code: 'REDLOCK_CONFIG' });
    const reason = new Error('gone');
    const signal = AbortSignal.abort(reason);
    await expect(locks.withLock('a', never, { onBusy: 'attach', signal })).rejects.toBe(reason);
    await expect(locks.withLock('a', never, { onBusy: 'skip' as never })).rejects.toThrow('attach');
    gate.open();
    await first;
  });

  it('are a call each in telemetry, of which one has the lock', async () => {
    const seen: string[] = [];
    const begin = (): CallTrace => ({
      acquired: () => seen.push('acquired'),
      ended: () => seen.push('ended'),
    });
    const telemetry: LockTelemetry = {
      begin,
      onEvent: () => undefined,
      observe: () => () => undefined,
    };
    const { reports } = await start({ telemetry });
    await Promise.all([reports.build('1', () => 1), reports.build('1', () => 2)]);
    await setImmediate();
    expect(seen).toEqual(['acquired', 'ended', 'ended']);
  });
});
