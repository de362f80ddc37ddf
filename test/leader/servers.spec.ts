import 'reflect-metadata';
import { Test } from '@nestjs/testing';
import { afterAll, afterEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { postgresFence } from '../../lib/fencing/index.ts';
import type { Lock, NodeInput } from '../../lib/index.ts';
import { isLeader, Leader, type Candidate } from '../../lib/leader/index.ts';
import { postgresNode } from '../../lib/postgres/index.ts';
import { removeProjects, writePrograms } from '../docs/consumer-project.ts';
import { blocksOf, readPage } from '../docs/pages.ts';
import { closeAll, closeLater, silentLogger, startModule } from '../nest/support/applications.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import { eventually } from '../support/eventually.ts';
import { Link } from '../support/link.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';

const PAGE = 'docs/leader.md';
const [, TABLE] = /(CREATE TABLE .+)(?= \*\/)/.exec(blocksOf(readPage(PAGE))[0]!.code)!;

const servers = useRedisServers(3);
const database = usePostgres(async (pool) => {
  await pool.query(postgresNode(pool).ddl());
  await pool.query('CREATE TABLE written (id text PRIMARY KEY, term bigint)');
  await pool.query(`${TABLE}; INSERT INTO schedule VALUES ('nightly', 0)`);
});
afterEach(closeAll);
afterAll(removeProjects);

const linkTo = async (url: string) => {
  const { hostname: host, port } = new URL(url);
  return closeLater(await Link.open({ host, port: Number(port) }));
};

/** The nodes of a process, once straight and once by links that a test can cut. */
const HOMES: Record<
  string,
  () => Promise<{ nodes: () => NodeInput[]; links: Link[]; cut: NodeInput[] }>
> = {
  'three Redis servers': async () => {
    const links = await Promise.all(servers.map(({ url }) => linkTo(url)));
    return {
      nodes: () => servers.map(({ url }) => url),
      links,
      cut: links.map(({ url }) => url),
    };
  },
  'PostgreSQL alone': async () => {
    const url = new URL(database.url);
    const link = await linkTo(database.url);
    url.port = String(link.port);
    const pool = new pg.Pool({ connectionString: url.href });
    pool.on('error', () => undefined);
    closeLater({ close: () => pool.end() });
    return {
      nodes: () => [postgresNode(database.pool)],
      links: [link],
      cut: [postgresNode(pool)],
    };
  },
};

async function start(
  name: string,
  nodes: readonly NodeInput[],
  story: string[],
  tokens: Lock['token'][],
) {
  @Leader('scheduler')
  class Scheduler implements Candidate {
    onElected({ token }: Lock): void {
      story.push(`${name} leads`);
      tokens.push(token);
    }

    onDeposed(): void {
      story.push(`${name} is deposed`);
    }
  }
  const module = await startModule({ providers: [Scheduler] }, { nodes, ttl: '2s' });
  const leader = module.get(Scheduler);
  return {
    leads: () => eventually(() => expect(isLeader(leader)).toBe(true)),
    close: () => module.close(),
  };
}

describe.each(Object.entries(HOMES))('with locks in %s', (home, open) => {
  const fence = () => postgresFence(database.pool);
  const write = (token: Lock['token']) =>
    fence().transaction(token, (client) =>
      client.query(
        'INSERT INTO written VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET term = EXCLUDED.term',
        [home, token.value],
      ),
    );

  it('a leader that is cut off is deposed before the next one leads, and writes nothing after that one has written', async () => {
    const { nodes, links, cut } = await open();
    const story: string[] = [];
    const tokens: Lock['token'][] = [];
    const first = await start('first', cut, story, tokens);
    await first.leads();
    const next = await start('next', nodes(), story, tokens);
    for (const link of links) link.setMode({ kind: 'lose' });
    await next.leads();
    const [old, latest] = tokens.slice(-2) as [Lock['token'], Lock['token']];
    await write(latest);
    await expect(write(old)).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    for (const link of links) link.setMode({ kind: 'pass' });
    await next.close();
    await first.leads();
    await first.close();
    const ofOne = (leads: string, deposed: string) =>
      leads === deposed.replace('is deposed', 'leads');
    expect(story.length % 2).toBe(0);
    for (let at = 0; at < story.length; at += 2)
      expect(ofOne(story[at]!, story[at + 1]!)).toBe(true);
    const values = tokens.map(({ value }) => value);
    expect(values).toEqual([...values].sort((a, b) => a - b));
    const { rows } = await database.pool.query('SELECT term FROM written WHERE id = $1', [home]);
    expect(Number(rows[0].term)).toBe(latest.value);
  });
});

describe('the program of docs/leader.md', () => {
  it('has one leader, and another one that goes on when that stops', async () => {
    const project = await writePrograms(PAGE);
    const { Scheduler } = await project.load('scheduler.ts');
    const { main, fencing, leader } = await project.load('entries.ts');
    const fence = fencing.postgresFence(database.pool);
    const startApp = async () => {
      const locks = main.RedlockModule.forRoot({ nodes: [servers[0]!.url], fence });
      const building = Test.createTestingModule({ imports: [locks], providers: [Scheduler] });
      return closeLater(await (await building.setLogger(silentLogger).compile()).init());
    };
    const apps = [await startApp(), await startApp()];
    const leaders = () => apps.map((app) => leader.isLeader(app.get(Scheduler)) as boolean);
    const runs = async () => {
      const { rows } = await database.pool.query('SELECT runs FROM schedule');
      return Number(rows[0].runs);
    };
    const moreRuns = async () => {
      const before = await runs();
      await eventually(async () => expect(await runs()).toBeGreaterThan(before));
    };
    await moreRuns();
    const first = leaders().indexOf(true);
    expect(leaders().filter(Boolean)).toHaveLength(1);
    await apps[first]!.close();
    await moreRuns();
    expect(leaders()).toEqual([first === 1, first === 0]);
  });
});
