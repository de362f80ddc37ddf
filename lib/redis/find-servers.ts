import dns from 'node:dns';
import { isIP, type Socket } from 'node:net';
import { CONNECT_TIMEOUT_MS, type ConnectionSource } from './connection/connection-source.ts';
import { RedisConnection } from './connection/redis-connection.ts';

/** A balancer leads one of so many connections to another server. */
const CONNECTIONS = 5;

/**
 * Finds the primaries behind the address of a node, over one connection to each address that its host has, or over a few: the
 * address of each. All connections are open when the last one is answered, so that a server that restarts meanwhile is not two.
 *
 * @param open has the connections until then: whoever ends them ends the search
 */
export async function findServers(
  source: ConnectionSource,
  open: Set<RedisConnection>,
): Promise<string[]> {
  const { host } = source;
  if (host === undefined) return [];
  const addresses = await addressesOf(host);
  const hosts = addresses.length > 1 ? addresses : [];
  while (hosts.length < CONNECTIONS) hosts.push(host);
  const answers = await Promise.all(hosts.map((each) => ask(source, each, open)));
  const found = new Map<string, string>();
  for (const [connection, info] of answers) {
    const { stream } = connection.client as { readonly stream?: Partial<Socket> };
    const runId = /^run_id:(\w+)/m.exec(info)?.[1];
    // Replicas give no locks.
    const isPrimary = connection.isUsable && runId !== undefined && !/^role:slave/m.test(info);
    if (isPrimary) found.set(runId, String(stream?.remoteAddress));
  }
  for (const [connection] of answers) {
    connection.close();
    open.delete(connection);
  }
  return [...found.values()];
}

/** Asks one server who it is; the text is empty where it does not say. */
async function ask(source: ConnectionSource, host: string, open: Set<RedisConnection>) {
  let connection: RedisConnection;
  const info = await new Promise<string>((resolve) => {
    const over = () => resolve('');
    const ready = () => connection.ask((client) => client.info()).then(resolve, over);
    const owner = { ready, ended: over, silent: over, spoke: over };
    connection = new RedisConnection(source, owner, CONNECT_TIMEOUT_MS, host);
    open.add(connection);
  });
  return [connection!, info] as const;
}

/** As the connections resolve it, which applications replace; empty where that is no name, or nobody knows it. */
function addressesOf(host: string): Promise<string[]> {
  if (isIP(host)) return Promise.resolve([]);
  return new Promise((resolve) => {
    dns.lookup(host, { all: true }, (error, found) => {
      resolve(error ? [] : [...new Set([found].flat().map(({ address }) => address))]);
    });
  });
}
