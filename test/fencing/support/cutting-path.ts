import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server } from 'node:net';

/** A way to the server that can cut the connection instead of passing an answer on. */
export class CuttingPath {
  /** When set: the next answer is kept back, this runs, and then the connection is cut. */
  beforeCut: (() => unknown) | undefined;
  private constructor(
    private readonly server: Server,
    readonly port: number,
  ) {}

  static async open(port: number): Promise<CuttingPath> {
    const server = createServer((client) => {
      const upstream = connect(port, '127.0.0.1');
      const end = (): void => {
        client.destroy();
        upstream.destroy();
      };
      client.on('error', end).on('close', end);
      upstream.on('error', end).on('close', end);
      client.on('data', (bytes) => upstream.write(bytes));
      upstream.on('data', (bytes) => {
        const { beforeCut } = path;
        path.beforeCut = undefined;
        if (beforeCut) void Promise.resolve(beforeCut()).then(end, end);
        else client.write(bytes);
      });
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const path = new CuttingPath(server, (server.address() as AddressInfo).port);
    return path;
  }

  close(): void {
    this.server.close();
  }
}
