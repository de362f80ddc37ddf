import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll } from '@jest/globals';
import { Chance } from '../../simulation/world/chance.ts';
import { eventually } from '../../support/eventually.ts';
import { type RedisServer, startRedisServers } from '../../support/redis-servers/index.ts';
import { respRequest } from '../../support/redis-servers/resp-request.ts';
import type { LinkTarget } from './link-connection.ts';
import type { LinkCounts } from './link-counts.ts';
import { PlainServer } from './plain-server.ts';
import { RawClient } from './raw-client.ts';
import { TcpLink } from './tcp-link.ts';

/** A real server, links to it, and clients on both sides of them. */
export class LinkStage {
  server!: RedisServer;
  readonly #clients: RawClient[] = [];
  readonly #links: TcpLink[] = [];
  readonly #plainServers: PlainServer[] = [];

  /** Once in each file of tests: it begins before and ends after them, and is empty for each. */
  constructor() {
    beforeAll(async () => {
      [this.server] = (await startRedisServers(1, { own: true })) as [RedisServer];
    });
    afterEach(() => this.clear());
    afterAll(() => this.server.stop());
  }

  /** A link, and a client that has connected to it. */
  async connected() {
    const link = await this.link();
    return { link, client: await this.client(link) };
  }

  /** A link, and a client whose connection to the server works. */
  async joined() {
    const { link, client } = await this.connected();
    await client.ask('PING');
    return { link, client };
  }

  /** The same with a server that does what the test says. */
  async joinedPlain() {
    const plain = await this.plainServer();
    const link = await this.link(1, plain);
    return { plain, link, client: await this.client(link) };
  }

  async link(seed = 1, target: LinkTarget = this.server): Promise<TcpLink> {
    const link = await TcpLink.open(target, new Chance(seed));
    this.#links.push(link);
    return link;
  }

  async plainServer(): Promise<PlainServer> {
    const plain = await PlainServer.start();
    this.#plainServers.push(plain);
    return plain;
  }

  async client({ port }: { readonly port: number }): Promise<RawClient> {
    const client = await RawClient.connect(port);
    this.#clients.push(client);
    return client;
  }

  /** Asks the server directly. */
  ask(...command: string[]): Promise<string> {
    const { host, port } = this.server;
    return respRequest({ address: { host, port } }, command, 10_000);
  }

  /** Closes clients, links and plain servers, and empties the server. */
  async clear(): Promise<void> {
    for (const client of this.#clients.splice(0)) client.close();
    await Promise.all(this.#links.splice(0).map((link) => link.close()));
    for (const plain of this.#plainServers.splice(0)) plain.stop();
    if (!this.server.isRunning) await this.server.restart();
    await this.server.resume();
    await this.ask('FLUSHALL');
  }
}

/** Resolves when a count has got to `least`. */
export async function untilCount(
  { counts }: { readonly counts: LinkCounts },
  name: keyof LinkCounts,
  least: number,
): Promise<void> {
  await eventually(() => {
    if (counts[name] < least) throw new Error(`${name} is ${counts[name]}, not ${least}`);
  });
}

/** Resolves with the value of `read` once it has stayed the same for a while. */
export async function settled(read: () => number): Promise<number> {
  for (let before = read(); ; before = read()) {
    await sleep(300);
    if (read() === before) return before;
  }
}

/** How many clients the server has, besides the one that asks. */
export async function connectedClients(stage: LinkStage): Promise<number> {
  const list = await stage.ask('CLIENT', 'LIST', 'TYPE', 'normal');
  return list.trim().split('\n').length - 1;
}
