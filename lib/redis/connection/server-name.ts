import { isIP } from 'node:net';
import type { Redis, RedisOptions, SentinelAddress } from 'ioredis';

/** TLS with the name of the server, by which routers find it that serve several. Node.js and ioredis leave it out. */
export function withName(tls: RedisOptions['tls'], host: string | undefined): RedisOptions['tls'] {
  return tls && host && !isIP(host) ? { servername: host, ...tls } : tls;
}

/** The parts of the Sentinel connector of ioredis that know which servers it connects to; the same in versions 5 and 6. */
interface SentinelConnector {
  connectToSentinel(endpoint: SentinelAddress, options?: RedisOptions): unknown;
  resolve(endpoint: SentinelAddress): Promise<(RedisOptions & { servername?: string }) | null>;
}

/** Gives the Sentinels and the primary their own names in TLS. */
export function nameFoundServers(client: Redis): void {
  const { connector } = client as unknown as { readonly connector: SentinelConnector };
  const connectToSentinel = connector.connectToSentinel.bind(connector);
  const resolve = connector.resolve.bind(connector);
  connector.connectToSentinel = (endpoint, options) => {
    const tls = withName(client.options.sentinelTLS, endpoint.host);
    return connectToSentinel(endpoint, { ...options, ...(tls && { tls }) });
  };
  connector.resolve = async (endpoint) => {
    const found = await resolve(endpoint);
    return found && { ...withName({}, found.host), ...found };
  };
}
