import 'reflect-metadata';
import { Injectable, type Type } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { context, diag, SpanStatusCode } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
  type DataPoint,
  type ExponentialHistogram,
  type Histogram,
  type MetricDescriptor,
} from '@opentelemetry/sdk-metrics';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
  type ReadableSpan,
} from '@opentelemetry/sdk-trace-base';
import Database from 'libsql';
import { sqliteFence } from '../../lib/fencing/index.ts';
import {
  Fenced,
  LockService,
  type LockTelemetry,
  type RedlockModuleOptions,
} from '../../lib/index.ts';
import { Leader } from '../../lib/leader/index.ts';
import { openTelemetry } from '../../lib/telemetry/index.ts';
import { createFencingToken, createMemoryNodes, occupy } from '../../lib/testing/index.ts';
import { eventually } from '../support/eventually.ts';
import {
  closeAll,
  closeLater,
  silentLogger,
  startModule,
  stopTime,
} from './support/applications.ts';

const spans = new InMemorySpanExporter();
const tracers = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
const tracer = tracers.getTracer('test');
const contexts = new AsyncLocalStorageContextManager();

const database = new Database(':memory:');
const fence = sqliteFence(database);
database.exec(fence.ddl());

@Injectable()
class Seats {
  constructor(readonly locks: LockService) {}

  @Fenced('seat:{0}', { wait: 0 })
  async book(_seat: string, work?: () => unknown): Promise<void> {
    await tracer.startActiveSpan('UPDATE seat', async (span) => {
      await work?.();
      span.end();
    });
  }

  @Fenced('seat:{0}', { claim: true })
  async claim(_seat: string): Promise<void> {}
}

interface Measured extends MetricDescriptor {
  readonly points: readonly DataPoint<number | Histogram | ExponentialHistogram>[];
}

async function start(options: Partial<RedlockModuleOptions> = {}, ...leaders: Type[]) {
  const reader = new PeriodicExportingMetricReader({
    exporter: new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE),
  });
  const meters = new MeterProvider({ readers: [reader] });
  closeLater({ close: () => meters.shutdown() });
  const telemetry = openTelemetry({ tracer, meter: meters.getMeter('test') });
  const nodes = createMemoryNodes(3);
  const module = await startModule(
    { providers: [Seats, ...leaders] },
    { nodes, telemetry, fence, ...options },
  );
  /** Metrics by their names. */
  const measure = async (): Promise<Map<string, Measured>> => {
    const { resourceMetrics } = await reader.collect();
    const metrics = resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics);
    return new Map(
      metrics.map(({ descriptor, dataPoints }) => [
        descriptor.name,
        { ...descriptor, points: [...dataPoints] },
      ]),
    );
  };
  const [seats, locks] = [module.get(Seats), module.get(LockService)];
  return { seats, locks, nodes, module, measure, telemetry };
}

const failing = (): never => {
  throw new Error('exporter is broken');
};

/** Runs `work` as the request of a caller that is traced itself. */
function request<Result>(work: () => Promise<Result>): Promise<Result> {
  return tracer.startActiveSpan('POST /seats', (span) => work().finally(() => span.end()));
}

/** The spans that have ended, as a tree: names with their children, in the order in which they ended. */
function tree(parent?: ReadableSpan): unknown[] {
  return spans
    .getFinishedSpans()
    .filter((span) => span.parentSpanContext?.spanId === parent?.spanContext().spanId)
    .map((span) => {
      const children = tree(span);
      return children.length === 0 ? span.name : [span.name, ...children];
    });
}

function spanNamed(name: string): ReadableSpan {
  return spans.getFinishedSpans().find((span) => span.name === name)!;
}

/** Complaints of the SDK about how it is used, such as a span that ended twice. */
const warn = jest.fn();
const ignore = () => undefined;

beforeAll(() => {
  context.setGlobalContextManager(contexts.enable());
  diag.setLogger({ warn, error: warn, info: ignore, debug: ignore, verbose: ignore });
});
afterEach(async () => {
  await closeAll();
  spans.reset();
  const complaints = warn.mock.calls;
  if (complaints.length > 0) throw new Error(`The SDK complains: ${String(complaints)}`);
});
afterAll(async () => {
  context.disable();
  diag.disable();
  await tracers.shutdown();
  database.close();
});

describe('spans', () => {
  it('of a lock are children of its request, and those of its work are children of the hold', async () => {
    const { seats } = await start();
    await request(() => seats.book('12A'));
    expect(tree()).toEqual([['POST /seats', 'lock.acquire', ['lock.hold', 'UPDATE seat']]]);
    const attributes = {
      'lock.keys': ['seat:12A'],
      'lock.template': 'seat:{0}',
      'lock.where': 'Seats.book',
      'lock.token': expect.any(Number),
    };
    expect(spanNamed('lock.acquire').attributes).toEqual(attributes);
    expect(spanNamed('lock.hold').attributes).toEqual(attributes);
    expect(spanNamed('lock.hold').status.code).toBe(SpanStatusCode.UNSET);
  });

  it('of a claim cover its way to the fence, before the hold begins', async () => {
    const { seats } = await start();
    await request(() => seats.claim('1'));
    expect(tree()).toEqual([['POST /seats', 'lock.acquire', 'lock.hold']]);
  });

  it('say that the work failed, with an error that stays as it is', async () => {
    const { locks } = await start();
    const error = new TypeError('no such seat');
    const refuse = () => {
      throw error;
    };
    await expect(request(() => locks.withLock('seat:1', refuse))).rejects.toBe(error);
    expect(spanNamed('lock.hold')).toMatchObject({
      status: { code: SpanStatusCode.ERROR, message: 'TypeError: no such seat' },
      attributes: { 'error.type': 'TypeError' },
    });
    expect(spanNamed('lock.acquire').status.code).toBe(SpanStatusCode.UNSET);
  });

  it('of a call that got no lock end with the reason, which is no error where the lock is busy', async () => {
    const { seats, locks, nodes } = await start();
    await using _other = await occupy(nodes, 'seat:1');
    await expect(seats.book('1')).rejects.toMatchObject({ code: 'LOCK_BUSY' });
    expect(await locks.tryAcquire('seat:1')).toBeNull();
    for (const { server } of nodes) server.kill();
    await expect(locks.acquire('seat:1', { wait: 0 })).rejects.toMatchObject({
      code: 'QUORUM_UNAVAILABLE',
    });
    expect(
      spans
        .getFinishedSpans()
        .map(({ name, attributes, status }) => [name, attributes['error.type'], status.code]),
    ).toEqual([
      ['lock.acquire', 'LOCK_BUSY', SpanStatusCode.UNSET],
      ['lock.acquire', 'LOCK_BUSY', SpanStatusCode.UNSET],
      ['lock.acquire', 'QUORUM_UNAVAILABLE', SpanStatusCode.ERROR],
    ]);
  });

  it('of calls that attach to another one say of no lock that it was busy', async () => {
    const { locks } = await start();
    const attach = { onBusy: 'attach' } as const;
    const calls = [1, 2].map((each) => locks.withLock('seat:1', () => each, attach));
    expect(await Promise.all(calls)).toEqual([1, 1]);
    const ended = spans.getFinishedSpans();
    expect(ended.filter(({ name }) => name === 'lock.acquire')).toHaveLength(2);
    expect(ended.map(({ attributes }) => attributes['error.type'])).not.toContain('LOCK_BUSY');
  });

  it('of acquire end with the grant, and with the release or the loss; what is between is a child of the caller', async () => {
    const { locks, nodes } = await start();
    await request(async () => {
      await using _lock = await locks.acquire('seat:1');
      tracer.startSpan('UPDATE seat').end();
    });
    expect(tree()).toEqual([['POST /seats', 'lock.acquire', 'UPDATE seat', 'lock.hold']]);
    const lock = (await locks.tryAcquire('seat:1'))!;
    await using _other = await occupy(nodes, 'seat:1', { takeOver: true });
    await expect(lock.extend()).rejects.toMatchObject({ code: 'LOCK_LOST' });
    const attributes = { 'lock.token': lock.token.value, 'error.type': 'LOCK_LOST' };
    expect(spans.getFinishedSpans().at(-1)).toMatchObject({ name: 'lock.hold', attributes });
  });

  it('of two calls at once stay with their own requests', async () => {
    const { seats } = await start();
    await Promise.all(['1', '2'].map((seat) => request(() => seats.book(seat))));
    const one = ['POST /seats', 'lock.acquire', ['lock.hold', 'UPDATE seat']];
    expect(tree()).toEqual([one, one]);
  });
});

describe('metrics', () => {
  const labels = { 'lock.template': 'seat:{0}', 'lock.where': 'Seats.book' };

  it('count locks, waits and holds by template and method', async () => {
    const { seats, measure } = await start();
    stopTime();
    const work = () => jest.advanceTimersByTimeAsync(2_000);
    for (const seat of ['1', '2', '3']) await seats.book(seat, work);
    jest.useRealTimers();
    const metrics = await measure();
    expect(metrics.get('lock.acquired')!.points).toMatchObject([{ attributes: labels, value: 3 }]);
    for (const name of ['lock.wait.duration', 'lock.hold.duration', 'lock.round_trip.duration']) {
      const attributes = name.includes('trip') ? {} : labels;
      expect(metrics.get(name)).toMatchObject({ unit: 's' });
      expect(metrics.get(name)!.points).toMatchObject([{ attributes, value: { count: 3 } }]);
      const { sum } = metrics.get(name)!.points[0]!.value as Histogram;
      expect(sum).toBe(name.includes('hold') ? 6 : 0);
    }
  });

  it('count what went wrong, and the reason of a loss', async () => {
    const { seats, locks, nodes, measure } = await start();
    const lost = seats.book('1', async () => {
      await using _other = await occupy(nodes, 'seat:1', { takeOver: true });
      await locks
        .current()!
        .extend()
        .catch(() => undefined);
      await expect(seats.book('1')).rejects.toMatchObject({ code: 'LOCK_BUSY' });
    });
    await expect(lost).rejects.toMatchObject({ code: 'LOCK_LOST' });
    await fence.claim(createFencingToken('seat:2', Date.now() * 1_000 + 200_000_000_000));
    await expect(seats.claim('2')).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    for (const { server } of nodes) server.kill();
    await expect(seats.book('3')).rejects.toMatchObject({ code: 'QUORUM_UNAVAILABLE' });
    const metrics = await measure();
    const points = (name: string) => metrics.get(name)!.points;
    expect(points('lock.busy')).toMatchObject([{ attributes: labels, value: 1 }]);
    expect(points('lock.unavailable')).toMatchObject([{ attributes: labels, value: 1 }]);
    expect(points('lock.lost')).toMatchObject([
      { attributes: { ...labels, 'lock.loss.reason': 'taken' }, value: 1 },
    ]);
    expect(points('lock.stale')).toMatchObject([
      { attributes: { ...labels, 'lock.where': 'Seats.claim' }, value: 1 },
    ]);
  });

  it('show what is held and waited for, and which nodes vote, at each collection', async () => {
    const { locks, nodes, measure } = await start();
    const shown = async () => {
      const metrics = [...(await measure())].filter(([name]) => /held|waiting|nodes/.test(name));
      return Object.fromEntries(metrics.map(([name, { points }]) => [name, points[0]!.value]));
    };
    const all = { 'lock.nodes.configured': 3, 'lock.nodes.voting': 3, 'lock.nodes.missing': 0 };
    const lock = await locks.acquire('seat:1');
    const waiting = locks.acquire('seat:1');
    expect(await shown()).toEqual({ 'lock.held': 1, 'lock.waiting': 1, ...all });
    await lock.release();
    await (await waiting).release();
    expect(await shown()).toEqual({ 'lock.held': 0, 'lock.waiting': 0, ...all });
    const trips = (await measure()).get('lock.node.round_trip.duration')!;
    const asked = trips.points.map(({ attributes }) => attributes['lock.node']);
    expect(new Set(asked)).toEqual(new Set(nodes.map(({ address }) => address)));
    for (const { server } of nodes.slice(1)) server.kill();
    await eventually(async () =>
      expect(await shown()).toMatchObject({ 'lock.nodes.voting': 1, 'lock.nodes.missing': 1 }),
    );
  });

  it('show whether this process leads', async () => {
    @Leader('scheduler')
    class Scheduler {
      onElected(): void {}
    }
    const { module, measure } = await start({}, Scheduler);
    const attributes = { 'lock.template': 'leader:scheduler' };
    const leads = (value: number) =>
      eventually(async () =>
        expect((await measure()).get('lock.leaders')!.points).toMatchObject([
          { attributes, value },
        ]),
      );
    await leads(1);
    await module.close();
    await leads(0);
  });

  it('have no key in any label', async () => {
    const { seats, locks, measure } = await start();
    await seats.book('secret-1');
    await locks.withLock('secret-2', () => undefined);
    const points = [...(await measure()).values()].flatMap((metric) => metric.points);
    expect(points.length).toBeGreaterThan(4);
    expect(JSON.stringify(points.map(({ attributes }) => attributes))).not.toContain('secret');
  });
});

describe('the runs of cron jobs', () => {
  afterEach(closeAll);

  it('are measured and counted by the names of their jobs', async () => {
    const { telemetry, measure } = await start();
    const run = { name: 'nightly', scheduled: '2026-06-01T03:00:00.000Z' };
    telemetry.onEvent({ ...run, type: 'run-ended', ranMs: 2_000 });
    telemetry.onEvent({ ...run, type: 'run-ended', ranMs: 500, error: new TypeError('no paper') });
    telemetry.onEvent({ ...run, type: 'run-missed', times: ['one', 'other'], isRun: true });
    const measured = await measure();
    const points = (name: string) =>
      measured
        .get(name)!
        .points.map(({ attributes, value }) => [
          Object.values(attributes),
          typeof value === 'number' ? value : value.sum,
        ]);
    expect(points('lock.run.duration')).toEqual([
      [['nightly'], 2],
      [['nightly', 'TypeError'], 0.5],
    ]);
    expect(points('lock.run.missed')).toEqual([[['nightly'], 2]]);
  });
});

describe('a telemetry that throws', () => {
  const failingAfterWork: LockTelemetry['begin'] = () => ({
    acquired(_lock, work) {
      work?.();
      failing();
    },
    ended: failing,
  });

  it.each<[string, Partial<LockTelemetry>]>([
    ['everywhere', { begin: failing, onEvent: failing, observe: failing }],
    ['in the traces', { begin: () => ({ acquired: failing, ended: failing }) }],
    ['after it has run the work', { begin: failingAfterWork }],
  ])('%s changes nothing for locks, and is logged once', async (_where, broken) => {
    const log = jest.spyOn(silentLogger, 'error').mockClear();
    const { locks } = await start({ telemetry: { ...openTelemetry(), ...broken } });
    let runs = 0;
    expect(await locks.withLock('seat:1', () => (runs += 1))).toBe(1);
    const refuse = () => Promise.reject(new TypeError('no such seat'));
    await expect(locks.withLock('seat:1', refuse)).rejects.toThrow(TypeError);
    for (const take of ['acquire', 'tryAcquire'] as const) {
      await using lock = await locks[take]('seat:1');
      expect(lock?.isHeld).toBe(true);
    }
    const logged = log.mock.calls.map(([message]) => message);
    expect(logged).toEqual([expect.stringContaining('exporter is broken')]);
  });
});
