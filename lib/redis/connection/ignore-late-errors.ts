import type { Redis } from 'ioredis';
import type { Duplex } from 'node:stream';

interface Connector {
  connect(...parameters: unknown[]): Promise<Duplex>;
}

/**
 * Call before `connect`. ioredis listens for one error of its socket, but TLS can bring a second one: the server's answer
 * to a handshake that was given up because of its certificate. Heard by nobody, that would end the process.
 */
export function ignoreLateErrors(client: Redis): void {
  const { connector } = client as unknown as { readonly connector: Connector };
  const connect = connector.connect.bind(connector);
  connector.connect = async (...parameters) => {
    const stream = await connect(...parameters);
    stream.on('error', () => undefined);
    return stream;
  };
}
