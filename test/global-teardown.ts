import { forgetRedis } from './support/redis-servers/index.ts';

/** Forgets Redis after all specs: a watch run searches again. Servers end with the specs and processes that started them. */
export default function tearDown(): void {
  forgetRedis();
}
