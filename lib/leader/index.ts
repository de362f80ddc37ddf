/**
 * One leader in a fleet, for as long as it lives.
 *
 * @module nestjs-fenced-lock/leader
 */
export { Leader, isLeader } from './leader.decorator.ts';
export type { Candidate } from './leadership.ts';
