import 'reflect-metadata';
import { Test } from '@nestjs/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { removeProjects, writePrograms } from '../docs/consumer-project.ts';
import { blocksOf, readPage } from '../docs/pages.ts';
import { closeAll, closeLater, silentLogger } from '../nest/support/applications.ts';
import { usePostgres } from '../support/databases/use-databases.ts';

const PAGE = 'docs/once.md';
const [, TABLE] = /(CREATE TABLE .+)(?= \*\/)/.exec(blocksOf(readPage(PAGE))[0]!.code)!;

describe('the program of docs/once.md, with PostgreSQL alone', () => {
  const database = usePostgres((pool) => pool.query(TABLE!));
  let program: Record<string, any>;
  beforeAll(async () => {
    process.env.DATABASE_URL = database.url;
    const project = await writePrograms(PAGE);
    program = await project.load('payments.ts');
    await database.pool.query(program.tables);
  });
  afterEach(closeAll);
  afterAll(async () => {
    await program.pool.end();
    removeProjects();
  });

  async function start() {
    const building = Test.createTestingModule({ imports: [program.PaymentsModule] });
    const module = await building.setLogger(silentLogger).compile();
    const charges: string[] = [];
    module.get(program.Provider).charge = async (_cents: number, options: any) => {
      charges.push(options.idempotencyKey);
      return `charge ${charges.length}`;
    };
    const app = closeLater(module.createNestApplication({ logger: silentLogger }));
    await app.listen(0, '127.0.0.1');
    const url = await app.getUrl();
    const post = async (path: string, body: object, headers: object = {}) => {
      const init = { method: 'POST', body: JSON.stringify(body) };
      const response = await fetch(`${url}/${path}`, {
        ...init,
        headers: { 'content-type': 'application/json', ...headers },
      });
      return `${response.status} ${await response.text()}`;
    };
    return { payments: module.get(program.Payments), post, charges };
  }

  async function paymentsOf(id: string) {
    const { rows } = await database.pool.query('SELECT charge FROM payment WHERE id = $1', [id]);
    return rows.map(({ charge }) => charge as string);
  }

  it('charges and books once for two processes, and answers both alike', async () => {
    const [one, two] = [await start(), await start()];
    const order = { id: 'o1', cents: 500 };
    const answers = await Promise.all([one, two, one].map(({ payments }) => payments.pay(order)));
    expect(answers).toEqual([0, 1, 2].map(() => ({ charge: 'charge 1' })));
    expect([...one.charges, ...two.charges]).toEqual(['pay:o1']);
    expect(await paymentsOf('o1')).toEqual(['charge 1']);
    const other = one.payments.pay({ ...order, cents: 1 });
    await expect(other).rejects.toMatchObject({ code: 'ONCE_CONFLICT' });
    const refunds = [one, two].map(({ payments }) => payments.refund(order));
    expect(await Promise.all(refunds)).toEqual([{ refunded: 500 }, { refunded: 500 }]);
  });

  it('answers a request with an Idempotency-Key again, for its sender', async () => {
    const { post } = await start();
    const tip = (key: string, user: string) =>
      post('tip', { id: user }, { 'idempotency-key': key, 'x-user': user });
    const answers = [await tip('k1', 'ana'), await tip('"k1"', 'ana'), await tip('k1', 'ben')];
    expect(answers).toEqual([
      '201 {"thanks":"ana"}',
      '201 {"thanks":"ana"}',
      '201 {"thanks":"ben"}',
    ]);
    expect(await paymentsOf('ana')).toEqual(['tip']);
    expect(await post('tip', { id: 'ana' }, { 'x-user': 'ana' })).toMatch(/^400 /);
  });
});
