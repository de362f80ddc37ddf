import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import type { FoundRedis, NotFound } from './redis-server.ts';
import { serverVersion } from './run-command.ts';

const NAMES = ['redis-server', 'valkey-server'];

/** A server installed on this machine. */
export async function findOnPath(): Promise<FoundRedis | NotFound> {
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  const broken: string[] = [];
  for (const name of NAMES) {
    for (const folder of folders) {
      const command = join(folder, name);
      if (!(await isExecutable(command))) continue;
      try {
        return { way: 'path', command, version: await serverVersion(command) };
      } catch (error) {
        broken.push(String(error));
      }
    }
  }
  return { reason: broken.join('; ') || `no ${NAMES.join(' or ')} on PATH` };
}

async function isExecutable(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
