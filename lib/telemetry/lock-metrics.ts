import type { BatchObservableResult, Meter } from '@opentelemetry/api';
import type { LockEvent } from '../core/events.ts';
import type { LockTelemetry } from '../locks/telemetry.ts';
import { labelsOf, typeOf } from './lock-spans.ts';

/** The upper bounds in seconds: from a vote in a data centre to waits and holds of a minute. */
const BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** The metrics of one module: what events count, and what is looked at when metrics are collected. */
export function lockMetrics(meter: Meter): Omit<LockTelemetry, 'begin'> {
  const histogram = (name: string, description: string) =>
    meter.createHistogram(name, {
      unit: 's',
      description,
      advice: { explicitBucketBoundaries: BOUNDS },
    });
  const counter = (type: LockEvent['type'], unit: string, description: string) =>
    [type, meter.createCounter(`lock.${type}`, { unit, description })] as const;
  const wait = histogram('lock.wait.duration', 'Time that callers waited for locks they got');
  const trip = histogram('lock.round_trip.duration', 'Round trip to a quorum that got a lock');
  const hold = histogram('lock.hold.duration', 'Time from the grant of a lock to its release');
  const leaders = meter.createUpDownCounter('lock.leaders', {
    unit: '{leader}',
    description: 'Classes that lead in this process',
  });
  const run = histogram('lock.run.duration', 'Time that runs of cron jobs took');
  const missed = meter.createCounter('lock.run.missed', {
    unit: '{run}',
    description: 'Runs of cron jobs that were missed',
  });
  const counters = new Map([
    counter('acquired', '{lock}', 'Locks that callers got'),
    counter('busy', '{call}', 'Calls whose wait ended while another held the lock'),
    counter('unavailable', '{call}', 'Calls for which too few servers answered'),
    counter('lost', '{lock}', 'Locks that were lost while held'),
    counter('stale', '{token}', 'Tokens that the fence rejected'),
  ]);
  return {
    onEvent(event) {
      if (event.type === 'run-missed')
        missed.add(event.times.length, { 'lock.run.name': event.name });
      if (event.type === 'run-ended')
        run.record(event.ranMs / 1000, {
          'lock.run.name': event.name,
          ...('error' in event && { 'error.type': typeOf(event.error) }),
        });
      if (!('keys' in event)) return;
      const labels = labelsOf(event);
      if (event.type === 'acquired') wait.record(event.waitedMs / 1000, labels);
      if (event.type === 'acquired') trip.record(event.roundTripMs / 1000);
      if (event.type === 'released') hold.record(event.heldMs / 1000, labels);
      if (event.type === 'elected') leaders.add(1, labels);
      if (event.type === 'deposed') leaders.add(-1, labels);
      if (event.type === 'lost') labels['lock.loss.reason'] = event.error.reason;
      counters.get(event.type)?.add(1, labels);
    },
    observe: observer(meter),
  };
}

function observer(meter: Meter): LockTelemetry['observe'] {
  const gauge = (name: string, unit: string, description: string) =>
    meter.createObservableGauge(name, { unit, description });
  const counts = [
    gauge('lock.held', '{lock}', 'Locks that this process holds'),
    gauge('lock.waiting', '{call}', 'Calls of this process that wait for a lock'),
    gauge('lock.nodes.voting', '{node}', 'Servers that give locks'),
    gauge('lock.nodes.configured', '{node}', 'Servers in the options'),
    gauge('lock.nodes.missing', '{node}', 'Servers that a quorum lacks'),
  ];
  const trip = gauge(
    'lock.node.round_trip.duration',
    's',
    'Round trip of the latest answer of a server',
  );
  return (status) => {
    const measure = (result: BatchObservableResult) => {
      const { held, waiting, nodes, votesMissing } = status();
      const voting = nodes.filter(({ state }) => state === 'voting').length;
      const values = [held, waiting, voting, nodes.length, votesMissing];
      counts.forEach((count, index) => result.observe(count, values[index]!));
      for (const { address, roundTripMs } of nodes)
        if (roundTripMs !== undefined)
          result.observe(trip, roundTripMs / 1000, { 'lock.node': address });
    };
    meter.addBatchObservableCallback(measure, [...counts, trip]);
    return () => meter.removeBatchObservableCallback(measure, [...counts, trip]);
  };
}
