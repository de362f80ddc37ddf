import dns from 'node:dns';
import { isIP } from 'node:net';
import type { Environment } from '../core/environment.ts';
import { CONNECT_TIMEOUT_MS } from './connection/heartbeat.ts';
import { RedisConnection } from './connection/redis-connection.ts';
import { NOT_WRITABLE, type WireSource } from './wire.ts';

/** A balancer leads one of so many connections to another server. */
const CONNECTIONS = 5;

/**
 * Finds the primaries behind the address of a node, over one connection to each address that its host has, or over a few: the
 * address of each. All connections are open when the last one is answered, so that a server that restarts meanwhile is not two.
 *
 * @param open has the connections until then: whoever ends them ends the search
 * @param asker the connection of the node for which it is: where that ended while the name was looked up, none is made
 */
export async function findServers(
  source: WireSource,
  open: Set<RedisConnection>,
  environment: Environment,
  asker: RedisConnection,
): Promise<string[]> {
  const hosts = source.host === undefined ? [] : await addressesOf(source.host);
  if (!asker.isUsable) throw new Error(NOT_WRITABLE);
  const ask = async (host: string) =>
    [host, ...(await askServer(source, host, open, environment))] as const;
  const answers = await Promise.all(hosts.map(ask));
  const found = answers.flatMap(([host, connection, info]) => {
    const runId = /^run_id:(\w+)/m.exec(info)?.[1];
    // Replicas give no locks.
    if (!connection.isUsable || runId === undefined || /^role:slave/m.test(info)) return [];
    return [[runId, connection.remoteAddress ?? host] as const];
  });
  for (const [, connection] of answers) {
    connection.close();
    open.delete(connection);
  }
  return [...new Map(found).values()];
}

/** Asks one server who it is; the text is empty where it does not say. */
async function askServer(
  source: WireSource,
  host: string,
  open: Set<RedisConnection>,
  environment: Environment,
) {
  let connection: RedisConnection;
  const info = await new Promise<string>((resolve) => {
    const over = () => resolve('');
    const ready = () => connection.ask('info').then((answer) => resolve(String(answer)), over);
    const owner = { host, ready, ended: over, silent: over, spoke: over };
    connection = new RedisConnection(source, owner, CONNECT_TIMEOUT_MS, environment);
    open.add(connection);
  });
  return [connection!, info] as const;
}

/** As the connections resolve it, which applications replace; where that is one address, or none, the host is repeated. */
function addressesOf(host: string): Promise<string[]> {
  const repeated = Array<string>(CONNECTIONS).fill(host);
  if (isIP(host)) return Promise.resolve(repeated);
  return new Promise((resolve) => {
    dns.lookup(host, { all: true }, (_error, found) => {
      const addresses = new Set([found ?? []].flat().map(({ address }) => address));
      resolve(addresses.size > 1 ? [...addresses, ...repeated.slice(addresses.size)] : repeated);
    });
  });
}
