import type { StartedTestContainer } from 'testcontainers';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from './free-port.ts';
import type { RedisServer, RedisServerOptions, RestartOptions } from './redis-server.ts';
import { ping } from './resp-request.ts';
import { loginOf, serverArguments, serverFiles, serverUrl } from './server-arguments.ts';

const PORT_INSIDE = 6379;
const START_LIMIT_MS = 60_000;

/** The part of dockerode's container that is used. */
interface ContainerHandle {
  pause(): Promise<unknown>;
  unpause(): Promise<unknown>;
  kill(): Promise<unknown>;
  start(): Promise<unknown>;
  stop(): Promise<unknown>;
}

/** A Redis server in a container. The host's port is fixed, as Docker would choose another one at a restart. */
export class DockerServer implements RedisServer {
  readonly pid = undefined;
  readonly canFault = true;
  #container: StartedTestContainer | undefined;
  #state: 'running' | 'frozen' | 'ended' = 'ended';

  private constructor(
    readonly port: number,
    private readonly image: string,
    private readonly options: RedisServerOptions,
  ) {}

  static async start(image: string, options: RedisServerOptions): Promise<DockerServer> {
    if (options.movableClock) throw clockError();
    for (let tries = 1; ; tries += 1) {
      const server = new DockerServer(await freePort(), image, options);
      try {
        await server.#create();
        return server;
      } catch (error) {
        await server.stop();
        const isPortTaken = /port is already allocated|address already in use/i.test(String(error));
        if (!isPortTaken || tries === 20) throw error;
      }
    }
  }

  get host(): string {
    return this.#container?.getHost() ?? '127.0.0.1';
  }

  get url(): string {
    return serverUrl(this.host, this.port, this.options);
  }

  get isRunning(): boolean {
    return this.#state !== 'ended';
  }

  async freeze(): Promise<void> {
    if (this.#state === 'frozen') return;
    await (await this.#handle('freeze')).pause();
    this.#state = 'frozen';
  }

  async resume(): Promise<void> {
    const handle = await this.#handle('resume');
    if (this.#state === 'frozen') await handle.unpause();
    this.#state = 'running';
  }

  async kill(): Promise<void> {
    if (this.#state === 'ended') return;
    const handle = await this.#handle('kill');
    try {
      await handle.kill();
    } catch (error) {
      if (this.#state !== 'frozen') throw error;
      // Older versions of Docker do not kill a paused container.
      await handle.unpause();
      await handle.kill();
    }
    this.#state = 'ended';
  }

  async restart({ keepData = false, args = [] }: RestartOptions = {}): Promise<void> {
    if (args.length > 0) {
      throw new Error('a container is started again with the arguments it was created with');
    }
    if (!this.#container) throw new Error(`the server on port ${this.port} was stopped for good`);
    if (!keepData) {
      await this.stop();
      return this.#create();
    }
    const wasFrozen = this.#state === 'frozen';
    const handle = await this.#handleOf(this.#container);
    if (wasFrozen) await this.kill();
    else if (this.#state === 'running') await handle.stop();
    await handle.start();
    this.#state = 'running';
    await this.#ready();
  }

  moveClock(): Promise<void> {
    return Promise.reject(clockError());
  }

  async stop(): Promise<void> {
    if (this.#state === 'frozen') await this.resume();
    const container = this.#container;
    this.#container = undefined;
    this.#state = 'ended';
    await container?.stop({ remove: true, removeVolumes: true, timeout: 0 });
  }

  async #create(): Promise<void> {
    const { GenericContainer, Wait } = await import('testcontainers');
    const directory = '/tmp/redis';
    const files = serverFiles(this.options).map(([name, content]) => ({
      content,
      target: `${directory}/${name}`,
      mode: 0o644,
    }));
    this.#container = await new GenericContainer(this.image)
      .withExposedPorts({ container: PORT_INSIDE, host: this.port })
      .withCopyContentToContainer(files)
      .withCommand(['redis-server', ...serverArguments(this.options, PORT_INSIDE, directory)])
      .withWaitStrategy(Wait.forLogMessage(/Ready to accept connections/))
      .withStartupTimeout(START_LIMIT_MS)
      .start();
    this.#state = 'running';
    await this.#ready();
  }

  async #ready(): Promise<void> {
    const target = {
      address: { host: this.host, port: this.port },
      tls: this.options.tls,
      user: loginOf(this.options),
    };
    const deadline = performance.now() + START_LIMIT_MS;
    for (;;) {
      try {
        return await ping(target);
      } catch (error) {
        if (performance.now() > deadline) throw error;
      }
      await sleep(20);
    }
  }

  #handle(what: string): Promise<ContainerHandle> {
    if (!this.#container || this.#state === 'ended') {
      throw new Error(`${what}: the server on port ${this.port} is not running`);
    }
    return this.#handleOf(this.#container);
  }

  async #handleOf(container: StartedTestContainer): Promise<ContainerHandle> {
    const { getContainerRuntimeClient } = await import('testcontainers');
    return (await getContainerRuntimeClient()).container.getById(container.getId());
  }
}

function clockError(): Error {
  return new Error(
    'the clock of a server can be moved where it is a process of this machine, not in a container: put redis-server on PATH, or set REDIS_SERVERS=package',
  );
}
