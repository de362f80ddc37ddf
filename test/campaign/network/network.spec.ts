import { afterEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { eventually } from '../../support/eventually.ts';
import type { RedisServer } from '../../support/redis-servers/index.ts';
import { LinkStage } from './link-stage.ts';
import { Network } from './network.ts';
import type { RawClient } from './raw-client.ts';

const CLIENTS = 4;
const NODES = 5;

const stage = new LinkStage();
const networks: Network[] = [];

async function startNetwork(): Promise<Network> {
  // Links to the same server are links to different nodes all the same.
  const targets = Array<RedisServer>(NODES).fill(stage.server);
  const network = await Network.start({ targets, clients: CLIENTS, seed: 1 });
  networks.push(network);
  return network;
}

function clientOf(network: Network, client: number, node: number): Promise<RawClient> {
  return stage.client({ port: Number(new URL(network.url(client, node)).port) });
}

/** A client on each link, by client and node. */
function allClients(network: Network): Promise<RawClient[][]> {
  return Promise.all(
    Array.from({ length: CLIENTS }, (_, client) =>
      Promise.all(Array.from({ length: NODES }, (__, node) => clientOf(network, client, node))),
    ),
  );
}

/** The links, as `client/node`, whose client has not ended. */
function living(clients: RawClient[][]): string[] {
  return clients.flatMap((ofClient, client) =>
    ofClient.flatMap(({ isEnded }, node) => (isEnded ? [] : [`${client}/${node}`])),
  );
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

afterEach(async () => {
  await Promise.all(networks.splice(0).map((network) => network.close()));
});

describe('a network', () => {
  it('has a link of its own for each client and node, which ioredis can use', async () => {
    const network = await startNetwork();
    const urls = new Set<string>();
    for (let client = 0; client < CLIENTS; client += 1) {
      for (let node = 0; node < NODES; node += 1) urls.add(network.url(client, node));
    }
    expect(urls.size).toBe(CLIENTS * NODES);
    expect(() => network.url(CLIENTS, 0)).toThrow(RangeError);
    expect(() => network.url(0, NODES)).toThrow(RangeError);
    const redis = new Redis(network.url(3, 4));
    expect(await redis.ping()).toBe('PONG');
    redis.disconnect();
  });

  it('fails for the chosen links only', async () => {
    const network = await startNetwork();
    const clients = await allClients(network);
    await Promise.all(clients.flat().map((client) => client.ask('PING')));
    const all = living(clients);
    expect(all).toHaveLength(CLIENTS * NODES);
    const left = async (gone: (link: string) => boolean): Promise<void> => {
      const expected = all.filter((link) => !gone(link));
      await eventually(() => expect(living(clients)).toEqual(expected));
      const others = clients.flat().filter(({ isEnded }) => !isEnded);
      for (const other of others) expect(await other.ask('PING')).toContain('PONG');
    };
    await network.set({ kind: 'reset' }, { clients: [1], nodes: [2] });
    await left((link) => link === '1/2');
    await network.resetConnections({ clients: [3] });
    await left((link) => link === '1/2' || link.startsWith('3/'));
    await network.set({ kind: 'refuse' }, { nodes: [0, 4] });
    await left((link) => link === '1/2' || link.startsWith('3/') || /[04]$/.test(link));
    await network.set({ kind: 'reset' });
    await left(() => true);
    expect((await network.counts()).resets).toBe(CLIENTS * NODES);
  });

  it('has set a mode when it says so, and counts what it did', async () => {
    const network = await startNetwork();
    const [client, other] = [await clientOf(network, 0, 1), await clientOf(network, 0, 0)];
    await client.ask('PING');
    const selection = { clients: [0], nodes: [1] };
    await network.set({ kind: 'hold' }, selection);
    client.send('INCR held');
    await eventually(async () => expect((await network.counts(selection)).heldChunks).toBe(1));
    expect(await other.ask('EXISTS held')).toBe(':0');
    await network.set({ kind: 'pass' });
    await client.until('+PONG\r\n:1\r\n'.length);
    expect(await network.counts(selection)).toMatchObject({ connections: 1, heldChunks: 1 });
    expect(await network.counts({ clients: [0] })).toMatchObject({ connections: 2, heldChunks: 1 });
    expect(await network.counts({ nodes: [2] })).toMatchObject({ connections: 0, heldChunks: 0 });
  });

  it('loses the reply of an executed request', async () => {
    const network = await startNetwork();
    const client = await clientOf(network, 2, 3);
    await client.ask('PING');
    await network.resetAfterRequest({ clients: [2], nodes: [3] });
    client.send('INCR executed');
    expect(await client.ended).toBe('ECONNRESET');
    expect(await stage.ask('GET', 'executed')).toBe('1');
    expect((await network.counts()).resetsAfterRequest).toBe(1);
  });

  it('reaches a server that was restarted', async () => {
    const network = await startNetwork();
    const client = await clientOf(network, 0, 0);
    await client.ask('PING');
    await stage.server.restart();
    await client.ended;
    expect(await (await clientOf(network, 0, 0)).ask('PING')).toBe('+PONG');
  });

  it('goes on while this process does not', async () => {
    const network = await startNetwork();
    const code = `
      const socket = require('net').connect(${new URL(network.url(0, 0)).port}, '127.0.0.1');
      socket.write('PING\\r\\n');
      socket.once('data', (reply) => { process.stdout.write(reply); socket.destroy(); });`;
    const { stdout } = spawnSync(process.execPath, ['-e', code], { timeout: 20_000 });
    expect(stdout.toString()).toBe('+PONG\r\n');
  });

  it('refuses links that do not exist', async () => {
    const network = await startNetwork();
    await expect(network.set({ kind: 'pass' }, { nodes: [NODES] })).rejects.toThrow('no number 5');
    await expect(network.counts({ clients: [-1] })).rejects.toThrow('no number -1');
  });
});

describe('the process of a network', () => {
  it('is gone when it was closed, and the network is of no more use', async () => {
    const network = await startNetwork();
    const client = await clientOf(network, 0, 0);
    const pid = network.pid!;
    expect(isAlive(pid)).toBe(true);
    const settled = Promise.allSettled([network.counts()]);
    await Promise.all([network.close(), network.close()]);
    expect(isAlive(pid)).toBe(false);
    await Promise.all([client.ended, settled]);
    await expect(network.counts()).rejects.toThrow('network-process.ts ended with SIGKILL');
  });

  it('says what it said last when it ends by itself', async () => {
    const broken = Network.start({ targets: [stage.server], clients: 2 ** 32, seed: 1 });
    await expect(broken).rejects.toThrow(/ended with 1: [^]*RangeError[^]*network-process\.ts/);
  });

  it('is missed when it was killed, also by what it had not answered', async () => {
    const network = await startNetwork();
    process.kill(network.pid!, 'SIGSTOP');
    const unanswered = network.set({ kind: 'pass' });
    process.kill(network.pid!, 'SIGKILL');
    await expect(unanswered).rejects.toThrow('ended with SIGKILL');
    await expect(network.set({ kind: 'pass' })).rejects.toThrow('ended with SIGKILL');
    await network.close();
  });

  /** A process that starts a network, says where it is, and goes on with `rest`. */
  function startParent(rest: string) {
    const { host, port } = stage.server;
    const settings = JSON.stringify({ targets: [{ host, port }], clients: 1, seed: 1 });
    const code = `
      const { Network } = await import(${JSON.stringify(new URL('network.ts', import.meta.url))});
      const network = await Network.start(${settings});
      console.log(network.pid, new URL(network.url(0, 0)).port);
      ${rest}`;
    const loader = new URL('../../support/typescript-loader.mjs', import.meta.url).href;
    return spawn(process.execPath, ['--import', loader, '--input-type=module', '-e', code], {
      env: { ...process.env, NODE_OPTIONS: '' },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
  }

  it('ends with its parent', async () => {
    const parent = startParent('');
    const [said] = (await once(parent.stdout, 'data')) as [Buffer];
    const [pid, port] = said.toString().split(' ').map(Number) as [number, number];
    // Ctrl-C in a terminal reaches both.
    process.kill(pid, 'SIGINT');
    const client = await stage.client({ port });
    expect(await client.ask('PING')).toBe('+PONG');
    parent.kill('SIGKILL');
    await client.ended;
    // The system closes one socket after the other.
    await eventually(() => expect(stage.client({ port })).rejects.toThrow('ECONNREFUSED'));
  });

  it('lets its parent end by itself once closed', async () => {
    const parent = startParent(`await network.close(); console.log('closed');`);
    let output = '';
    parent.stdout.on('data', (text: Buffer) => (output += text.toString()));
    const [code] = (await once(parent, 'close')) as [number];
    expect(code).toBe(0);
    expect(output).toMatch(/^\d+ \d+\nclosed\n$/);
  });
});
