import type { RedisServer } from '../../support/redis-servers/redis-server.ts';
import type { Stage } from '../run/stage.ts';

/** Does the same to some servers at once; `indices` name them. */
export async function eachServer(
  stage: Stage,
  indices: readonly number[],
  act: (server: RedisServer) => Promise<unknown>,
): Promise<void> {
  await Promise.all(indices.map((index) => act(stage.servers[index]!)));
}
