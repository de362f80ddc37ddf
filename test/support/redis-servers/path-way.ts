import { join } from 'node:path';
import { foldersWith } from './find-programs.ts';
import type { FoundRedis, NotFound } from './redis-server.ts';
import { serverVersion } from './run-command.ts';

const NAMES = ['redis-server', 'valkey-server'];

/** A server installed on this machine. */
export async function findOnPath(): Promise<FoundRedis | NotFound> {
  const broken: string[] = [];
  for (const name of NAMES) {
    for (const folder of await foldersWith([name])) {
      const command = join(folder, name);
      try {
        return { way: 'path', command, version: await serverVersion(command) };
      } catch (error) {
        broken.push(String(error));
      }
    }
  }
  return { reason: broken.join('; ') || `no ${NAMES.join(' or ')} on PATH` };
}
