import type { FoundRedis, NotFound } from './redis-server.ts';

/** The image of docker-compose.yml. */
const IMAGE = 'redis:8';

/** Containers through testcontainers. The image is pulled here, so that a registry out of reach is seen at once. */
export async function findDocker(): Promise<FoundRedis | NotFound> {
  try {
    const { getContainerRuntimeClient, ImageName } = await import('testcontainers');
    const client = await getContainerRuntimeClient();
    const image = process.env.REDIS_IMAGE || IMAGE;
    await client.image.pull(ImageName.fromString(image));
    return { way: 'docker', image, version: image };
  } catch (error) {
    return {
      reason: `no container runtime: ${error instanceof Error ? error.message : String(error)}`,
    };
  }
}
