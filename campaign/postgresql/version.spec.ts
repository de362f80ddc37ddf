import { expect, it } from '@jest/globals';
import { usePostgres } from '../../test/support/databases/use-databases.ts';

const database = usePostgres(async () => undefined);

it('the servers of this part are of the version that its package pins', async () => {
  const { rows } = await database.pool.query('SHOW server_version');
  expect(rows).toEqual([{ server_version: '18.4' }]);
});
