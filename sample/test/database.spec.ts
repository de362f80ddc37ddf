import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { Pool } from 'pg';
import { postgresFence } from '../../lib/fencing/drivers/postgres-fence.ts';

const HOLDERS = 6;
const ROUNDS = 20;

let child: ChildProcess;
let pools: Pool[] = [];

beforeAll(async () => {
  // In this process its answers would leave no gap for other connections.
  child = fork('sample/show/database-process.ts', {
    execArgv: ['--import', './test/support/typescript-loader.mjs'],
  });
  const [{ url }] = (await once(child, 'message')) as [{ url: string }];
  pools = Array.from({ length: HOLDERS }, () => new Pool({ connectionString: url, max: 2 }));
});

afterAll(async () => {
  await Promise.all(pools.map((pool) => pool.end()));
  const exit = once(child, 'exit');
  child.kill('SIGKILL');
  await exit;
});

it('the embedded database keeps single statements of many connections apart, also rejected ones', async () => {
  await pools[0]!.query(postgresFence(pools[0]!).ddl());
  const answered = await Promise.all(
    pools.map(async (pool, index) => {
      const fence = postgresFence(pool);
      const claim = (holder: string, value: number): Promise<string> =>
        fence.claim({ value, holder, keys: [`seat:${index}`] }).then(
          () => 'admitted',
          (error: { code?: string }) => String(error.code),
        );
      const answers = new Set<string>();
      for (let value = 2; value < 2 + ROUNDS; value += 1) {
        const [newer, older] = [await claim('newer', value), await claim('older', value - 1)];
        answers.add(`${newer}, ${older}`);
        // While a transaction is open the others queue up: that is where they mix.
        await fence.transaction({ value, holder: 'newer', keys: [`seat:${index}`] }, () => {});
      }
      return [...answers];
    }),
  );
  expect(answered).toEqual(Array.from({ length: HOLDERS }, () => ['admitted, STALE_TOKEN']));
});
