import { beforeEach, describe, expect, it } from '@jest/globals';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import { postgresFence } from '../../lib/fencing/index.ts';
import { usePostgres } from '../support/databases/use-databases.ts';

const WRITE = "UPDATE seat SET owner = 'late' WHERE id = 'a'";

/** What a migration from another database may leave behind: a cast that takes no offence, and a function of a known name. */
const OWN_NAMES = `
  CREATE FUNCTION lenient(text) RETURNS bigint LANGUAGE sql IMMUTABLE AS
    $$ SELECT CASE WHEN $1 ~ '^[0-9]+$' THEN int8in(textout($1)) END $$;
  CREATE CAST (text AS bigint) WITH FUNCTION lenient(text);
  CREATE FUNCTION json_build_array(text, text, text) RETURNS text LANGUAGE sql AS 'SELECT NULL::text';
  CREATE FUNCTION concat(text, json) RETURNS text LANGUAGE sql AS 'SELECT NULL::text';
  CREATE FUNCTION count(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
  CREATE FUNCTION txid_current(integer DEFAULT 0) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'`;

describe.each([{}, { prepared: true }])(
  'a fence with %j where names are the database’s own',
  (options) => {
    const database = usePostgres(async (created) => {
      await created.query(postgresFence(created).ddl());
      await created.query('CREATE TABLE seat (id text PRIMARY KEY, owner text)');
      await created.query(OWN_NAMES);
    });
    let fence: ReturnType<typeof fenceOf>;
    const fenceOf = () => postgresFence(database.pool, options);
    const token = (value: number, keys: readonly string[]): FencingToken =>
      new FencingToken(value, [...keys], `holder-${value}`);
    const owner = async (): Promise<unknown> =>
      (await database.pool.query("SELECT owner FROM seat WHERE id = 'a'")).rows[0].owner;

    beforeEach(async () => {
      fence = fenceOf();
      await database.pool.query(
        `TRUNCATE seat; INSERT INTO seat VALUES ('a'); DELETE FROM redlock_fence WHERE resource <> ''`,
      );
      await fence.claim(token(20, ['a']));
    });

    it.each([[['a']], [['a', 'b', 'c']], [['b', 'a']]])(
      'refuses a stale token with keys %j',
      async (keys) => {
        const stale = { code: 'STALE_TOKEN', key: 'a', currentToken: '20' };
        const work = (client: { query(sql: string): Promise<unknown> }) => client.query(WRITE);
        await expect(fence.transaction(token(10, keys), work)).rejects.toMatchObject(stale);
        await expect(fence.claim(token(10, keys))).rejects.toMatchObject(stale);
        await expect(owner()).resolves.toBeNull();
      },
    );

    it('does not commit what swallowed a refusal', async () => {
      const client = await database.pool.connect();
      try {
        await client.query('BEGIN');
        await fence.advance(client, token(10, ['a'])).catch(() => undefined);
        await client.query(WRITE).catch(() => undefined);
        await client.query('COMMIT');
      } finally {
        client.release();
      }
      await expect(owner()).resolves.toBeNull();
    });

    it('refuses for their age what is too old', async () => {
      const aged = postgresFence(database.pool, { maxAge: '1d' });
      const old = token((Date.now() - 90_000_000) * 1_000, ['new']);
      await expect(aged.claim(old)).rejects.toMatchObject({ currentHolder: '' });
      const work = (client: { query(sql: string): Promise<unknown> }) => client.query(WRITE);
      await expect(aged.transaction(old, work)).rejects.toMatchObject({ currentHolder: '' });
      await expect(owner()).resolves.toBeNull();
    });

    it('notices that the work has ended its transaction', async () => {
      const work = async (client: { query(sql: string): Promise<unknown> }) => {
        await client.query('COMMIT');
        await client.query('BEGIN');
      };
      await expect(fence.transaction(token(30, ['a']), work)).rejects.toMatchObject({
        code: 'FENCED_USAGE',
      });
    });

    it('writes nothing when the table keeps a row under another key', async () => {
      await database.pool.query(`
      CREATE TABLE renaming_fence (LIKE redlock_fence INCLUDING ALL);
      CREATE OR REPLACE FUNCTION rename_row() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN NEW.resource = NEW.resource || random(); RETURN NEW; END $$;
      CREATE TRIGGER renaming BEFORE INSERT ON renaming_fence FOR EACH ROW EXECUTE FUNCTION rename_row()`);
      try {
        const renaming = postgresFence(database.pool, { ...options, table: 'renaming_fence' });
        const work = (client: { query(sql: string): Promise<unknown> }) => client.query(WRITE);
        const write = renaming.transaction(token(30, ['a', 'b']), work);
        await expect(write).rejects.toThrow(/one row for each key/);
        await expect(owner()).resolves.toBeNull();
      } finally {
        await database.pool.query('DROP TABLE renaming_fence');
      }
    });
  },
);
