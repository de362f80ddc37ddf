import type { DatabaseServer } from './database-server.ts';

/** A server in a container. */
export interface DockerDatabase {
  readonly image: string;
  readonly port: number;
  readonly environment: Readonly<Record<string, string>>;
  readonly command: readonly string[];
  /** A log line that says it serves, and how often it comes (images restart the server after making the data). */
  readonly ready: readonly [line: RegExp, times: number];
  url(host: string, port: number): string;
}

/** Starts a container through testcontainers, or resolves with the reason why there is no container runtime. */
export async function startDockerDatabase(
  database: DockerDatabase,
): Promise<DatabaseServer | string> {
  const { GenericContainer, Wait, getContainerRuntimeClient } = await import('testcontainers');
  try {
    await getContainerRuntimeClient();
  } catch (error) {
    return `no container runtime: ${error instanceof Error ? error.message : String(error)}`;
  }
  const container = await new GenericContainer(database.image)
    .withExposedPorts(database.port)
    .withEnvironment({ ...database.environment })
    .withCommand([...database.command])
    .withWaitStrategy(Wait.forLogMessage(...database.ready))
    .start();
  return {
    url: database.url(container.getHost(), container.getMappedPort(database.port)),
    description: `${database.image} in a container`,
    stop: async () =>
      void (await container.stop({ remove: true, removeVolumes: true, timeout: 0 })),
  };
}
