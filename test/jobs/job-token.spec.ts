import { describe, expect, it } from '@jest/globals';
import { jobToken, leaseToken, revisionToken } from '../../lib/jobs/index.ts';

const CREATED = Date.UTC(2026, 10, 29);
const BULLMQ = {
  queueQualifiedName: 'bull:reports',
  id: '1',
  timestamp: CREATED,
  attemptsStarted: 1,
};
const PG_BOSS = { name: 'reports', id: '4b', createdOn: new Date(CREATED), retryCount: 0 };
const GRAPHILE = {
  task_identifier: 'render',
  id: '7',
  created_at: new Date(CREATED),
  revision: 0,
  attempts: 1,
};
const NATS = {
  stream: 'REPORTS',
  consumer: 'renderer',
  streamSequence: 3,
  timestampNanos: CREATED * 1e6,
  deliveryCount: 1,
};
const AMQP = {
  fields: { redelivered: false },
  properties: { messageId: 'm1', timestamp: CREATED / 1_000, headers: {} },
};

const redelivered = (headers: object) => ({
  fields: { redelivered: true },
  properties: { ...AMQP.properties, headers },
});

/** A first run, and the one that the queue begins when it gives the first one up. */
const RUNS: readonly (readonly [name: string, first: object, second: object])[] = [
  ['BullMQ', BULLMQ, { ...BULLMQ, attemptsStarted: 2 }],
  ['pg-boss', PG_BOSS, { ...PG_BOSS, retryCount: 1 }],
  ['graphile-worker', GRAPHILE, { ...GRAPHILE, attempts: 2 }],
  [
    'graphile-worker, added again by its key',
    { ...GRAPHILE, attempts: 25 },
    { ...GRAPHILE, revision: 1 },
  ],
  ['NATS JetStream', { info: NATS }, { info: { ...NATS, deliveryCount: 2 } }],
  ['RabbitMQ 3 and 4', AMQP, redelivered({ 'x-delivery-count': 1 })],
  ['RabbitMQ 4.3 after a nack', AMQP, redelivered({ 'x-acquired-count': 1 })],
];

describe('jobToken', () => {
  it.each(RUNS)('grows with each run of a job of %s, for the same key', (_name, first, second) => {
    const older = jobToken({ ...first }, 'mails');
    const newer = jobToken({ ...second }, 'mails');
    expect(newer.value).toBeGreaterThan(older.value);
    expect(newer.keys).toEqual(older.keys);
    expect(newer.holder).not.toBe(older.holder);
  });

  it('is the same for one run, and never for two runs of one count', () => {
    const run = { ...BULLMQ };
    expect(jobToken(run)).toBe(jobToken(run));
    expect(jobToken({ ...BULLMQ }).holder).not.toBe(jobToken(run).holder);
  });

  it('has a key of its own for each queue, id and time of creation, whatever is in their names', () => {
    const jobs = [
      BULLMQ,
      { ...BULLMQ, id: '2' },
      { ...BULLMQ, timestamp: CREATED + 1 },
      { ...BULLMQ, queueQualifiedName: 'bull:mails' },
      { ...BULLMQ, queueQualifiedName: 'bull:reports/1', id: '2' },
      { ...BULLMQ, id: '1/2' },
      PG_BOSS,
    ];
    expect(new Set(jobs.flatMap((job) => jobToken({ ...job }).keys)).size).toBe(jobs.length);
    const queues = ['mails', 'bills'].flatMap((queue) => jobToken({ ...AMQP }, queue).keys);
    expect(new Set(queues).size).toBe(2);
  });

  it.each([
    ['an array of jobs', [PG_BOSS], 'needs one job'],
    ['a message of SQS', { MessageId: 'a', Attributes: { ApproximateReceiveCount: '1' } }, 'SQS'],
    ['an entry of a Redis Stream', ['1-0', ['field', 'value']], 'Redis Streams'],
    ['no job', undefined, 'needs one job'],
    ['pg-boss without its metadata', { ...PG_BOSS, createdOn: undefined }, 'includeMetadata: true'],
    ['pg-boss without a time', { ...PG_BOSS, createdOn: null }, 'no createdAt'],
    ['BullMQ without an id', { ...BULLMQ, id: '' }, 'no id'],
    [
      'BullMQ before its first run',
      { ...BULLMQ, timestamp: 0, attemptsStarted: 0 },
      'no createdAt, count',
    ],
    ['a message without properties', { fields: {} }, 'no queue, id, createdAt, count'],
    ['NATS without a count', { info: {} }, 'no id, createdAt, count'],
    ['RabbitMQ without the name of the queue', AMQP, 'no queue'],
    ['BullMQ with a count of another type', { ...BULLMQ, attemptsStarted: 'one' }, 'no count'],
  ])('refuses %s, and says what to do', (_name, job, message) => {
    const take = () => jobToken(job as object);
    expect(take).toThrow(expect.objectContaining({ code: 'FENCED_USAGE' }));
    expect(take).toThrow(message);
  });

  it.each([
    ['an id', { ...AMQP, properties: { timestamp: 1 } }, 'no id'],
    [
      'a time in seconds',
      { ...AMQP, properties: { messageId: 'm', timestamp: CREATED } },
      'no count',
    ],
    ['a count, from a classic queue', redelivered({}), 'no count'],
  ])('refuses a message of RabbitMQ without %s', (_name, message, missing) => {
    expect(() => jobToken(message, 'mails')).toThrow(missing);
  });
});

describe('the tokens of leaders', () => {
  const metadata = { namespace: 'jobs', name: 'nightly', uid: 'u1' };

  it('grow with each holder of a Lease, which begins again only as another object', () => {
    const leases = [{}, { leaseTransitions: 1 }].map((spec) =>
      leaseToken({ metadata, spec: { ...spec, holderIdentity: 'pod-a' } }, 'pod-a'),
    );
    expect(leases.map(({ value }) => value)).toEqual([1, 2]);
    const spec = { holderIdentity: 'pod-a' };
    const again = leaseToken({ metadata: { ...metadata, uid: 'u2' }, spec }, 'pod-a');
    expect(again.keys).not.toEqual(leases[0]!.keys);
  });

  it('are refused to a process that does not hold the Lease', () => {
    const lease = { metadata, spec: { holderIdentity: 'pod-b', leaseTransitions: 3 } };
    expect(() => leaseToken(lease, 'pod-a')).toThrow('held by pod-b, not by pod-a');
    expect(() => leaseToken({ metadata, spec: { holderIdentity: '' } }, '')).toThrow('nobody');
    const nameless = { metadata: { name: 'nightly' }, spec: { holderIdentity: 'pod-a' } };
    expect(() => leaseToken(nameless, 'pod-a')).toThrow('no metadata.uid');
  });

  it('are the revision and the lease of a key in etcd, which has them as text', () => {
    const token = revisionToken('nightly', { create_revision: '41', lease: '7587' });
    expect(token).toMatchObject({ value: 41, keys: ['etcd/nightly'], holder: '7587' });
    expect(() => revisionToken('nightly', { create_revision: '0', lease: '1' })).toThrow(
      'positive',
    );
  });
});
