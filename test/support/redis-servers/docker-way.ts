import type { FoundRedis, NotFound } from './redis-server.ts';

/** The image of docker-compose.yml. */
const IMAGE = 'redis:8';

/** Containers through testcontainers. The image is pulled here, so that a registry out of reach is seen at once. */
export async function findDocker(): Promise<FoundRedis | NotFound> {
  try {
    const { getContainerRuntimeClient, ImageName } = await import('testcontainers');
    const client = await getContainerRuntimeClient();
    const name = ImageName.fromString(IMAGE);
    await client.image.pull(name);
    // A failed pull may end quietly.
    if (!(await client.image.exists(name))) return { reason: `${IMAGE} could not be pulled` };
    return { way: 'docker', image: IMAGE, version: IMAGE };
  } catch (error) {
    return {
      reason: `no container runtime: ${error instanceof Error ? error.message : String(error)}`,
    };
  }
}
