import { findRedisForAll } from './support/redis-servers/index.ts';

/** Finds Redis before all specs, once (and downloads it when need be), and hands it to the workers. */
export default async function setUp(): Promise<void> {
  const { description } = await findRedisForAll();
  process.stderr.write(`\n${description}\n`);
}
