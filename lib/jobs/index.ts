/**
 * The tokens that queues, Kubernetes and etcd have already: for a fence without a lock, and without `RedlockModule`.
 *
 * @module nestjs-fenced-lock/jobs
 */
export { FencedJob } from './fenced-job.decorator.ts';
export { jobToken } from './job-token.ts';
export { leaseToken, revisionToken } from './leader-tokens.ts';
export type { KubernetesLease } from './leader-tokens.ts';
export { fencingToken, FencingToken } from '../nest/fenced/lock-parameters.ts';
