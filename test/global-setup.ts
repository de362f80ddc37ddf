import { findRedisForAll } from './support/redis-servers/index.ts';

/** Before all specs: finds Redis (and downloads it when need be) once, and hands it to the workers. */
export default async function setUp(): Promise<void> {
  // Workers inherit it.
  process.env['NESTJS_FENCED_LOCK_INVARIANTS'] = 'on';
  const { description } = await findRedisForAll();
  process.stderr.write(`\n${description}\n`);
}
