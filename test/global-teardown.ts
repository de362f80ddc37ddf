import { forgetRedis } from './support/redis-servers/index.ts';

/** After all specs: a watch run searches again. The servers themselves end with the specs and processes that started them. */
export default function tearDown(): void {
  forgetRedis();
}
