import { randomUUID } from 'node:crypto';
import { FencedUsageError } from '../core/errors.ts';
import { FencingToken } from '../core/fencing-token.ts';

/** What a queue says of one run of a job. */
interface JobRun {
  readonly kind: string;
  readonly queue: unknown;
  /** It begins again at 1 when the queue has lost its data, so it is no key without the time. */
  readonly id: unknown;
  readonly createdAt: unknown;
  /** How often the queue has handed the job out, raised in the step that does so. */
  readonly count: unknown;
}

/** Where something is missing, it is this. */
const ADVICE: Readonly<Record<string, string>> = {
  'pg-boss': 'begin the worker with boss.work(name, { includeMetadata: true }, …)',
  nats: 'messages of JetStream are counted, those of NATS without it are not',
  amqp: "name the queue, jobToken(message, 'mails') or @FencedJob('mails'); publish with a messageId that is never used twice, and a timestamp in seconds; a message that comes again needs a quorum queue, for classic queues don't count",
};

/** Knows each job by a property that only those of its queue have. */
function runOf(job: any, queue: string | undefined): JobRun | undefined {
  const { id, info, fields, properties } = job;
  if (job.attemptsStarted !== undefined) {
    const { queueQualifiedName, timestamp, attemptsStarted: count } = job;
    return { kind: 'bullmq', queue: queueQualifiedName, id, createdAt: timestamp, count };
  }
  if (job.retryCount !== undefined) {
    const { name, createdOn, retryCount } = job;
    return { kind: 'pg-boss', queue: name, id, createdAt: createdOn, count: retryCount + 1 };
  }
  if (job.task_identifier !== undefined) {
    // A job that is added again under its job_key gets a new revision, and its attempts begin again.
    const count = job.revision * 65_536 + job.attempts;
    const { task_identifier, created_at } = job;
    return { kind: 'graphile-worker', queue: task_identifier, id, createdAt: created_at, count };
  }
  if (info !== undefined) {
    const { stream, consumer, streamSequence, timestampNanos, deliveryCount: count } = info;
    const createdAt = Number(timestampNanos) / 1e6;
    return { kind: 'nats', queue: `${stream}/${consumer}`, id: streamSequence, createdAt, count };
  }
  if (fields === undefined) return undefined;
  const { messageId, timestamp, headers = {} } = properties ?? {};
  // Both are absent at first. RabbitMQ 4.3 counts each delivery in the second one, and in the first one only failures.
  const { 'x-delivery-count': failed = 0, 'x-acquired-count': acquired = 0 } = headers;
  const earlier = Math.max(failed, acquired);
  const count = fields.redelivered && earlier === 0 ? NaN : earlier + 1;
  return { kind: 'amqp', queue, id: messageId, createdAt: timestamp * 1_000, count };
}

/** One token for each job object: two runs never share it, not even where a count was set back. */
const tokens = new WeakMap<object, FencingToken>();

/**
 * The fencing token of one run of a job: the queue counts how often it has handed the job out, so a run that was given up has a
 * smaller token than the one that took its place. The same object always gives the same token.
 *
 * It takes the job of BullMQ, pg-boss (with `includeMetadata`) or graphile-worker (`helpers.job`), a message of NATS JetStream, or one
 * of a RabbitMQ quorum queue (amqplib). The key of the token names the queue, the job and the time when it was created, since
 * ids begin again when a queue loses its data. The value is that time in microseconds plus the count, so that a fence with a `maxAge`
 * longer than any job lives may forget old jobs.
 *
 * It orders the runs of one job, and not two jobs that write the same row.
 *
 * @param job as the queue handed it to this run
 * @param queue the name of the queue; only a message of RabbitMQ needs it, which doesn't say it
 * @throws FencedUsageError when it is no such job, or the queue doesn't count: SQS, Redis Streams, and classic queues of RabbitMQ
 *
 * @example
 * ```ts
 * async function render(payload: { report: string }, { job }: { job: object }) {
 *   const token = jobToken(job);
 *   await fence.claim(token);
 *   await work(payload.report);
 *   await fence.transaction(token, (tx) => tx.query('UPDATE report SET done = true WHERE id = $1', [payload.report]));
 * }
 * ```
 */
export function jobToken(job: object, queue?: string): FencingToken {
  const known = tokens.get(job);
  if (known) return known;
  const run = runOf(Object(job), queue);
  if (!run)
    throw new FencedUsageError(
      'A token needs one job of BullMQ, pg-boss (with includeMetadata) or graphile-worker (helpers.job), or a message of NATS JetStream or of a RabbitMQ quorum queue. SQS and Redis Streams have no count that only grows: take a lock there.',
    );
  // No date at all would be that of 1970.
  const createdAt = Math.floor(new Date((run.createdAt ?? NaN) as number).getTime());
  const value = createdAt * 1_000 + Number(run.count);
  const facts = { ...run, createdAt, count: value };
  const missing = Object.entries(facts).filter(([, fact]) =>
    typeof fact === 'number'
      ? !(Number.isSafeInteger(fact) && fact > 0)
      : fact == null || fact === '',
  );
  if (missing.length > 0) {
    const names = missing.map(([name]) => name).join(', ');
    const advice = ADVICE[run.kind] ?? 'pass the job as the queue handed it out';
    throw new FencedUsageError(
      `This job of ${run.kind} has no token: no ${names}. Do this: ${advice}.`,
    );
  }
  const key = [run.kind, run.queue, run.id, createdAt].map((part) =>
    encodeURIComponent(String(part)),
  );
  const token = new FencingToken(value, [key.join('/')], randomUUID());
  tokens.set(job, token);
  return token;
}
