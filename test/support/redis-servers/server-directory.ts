import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A new temporary directory for a server. Paths of sockets are limited to about 100 characters, which some folders nearly use up. */
export function serverDirectory(name: string): Promise<string> {
  const parent = tmpdir().length > 60 ? '/tmp' : tmpdir();
  return mkdtemp(join(parent, `fenced-lock-${name}-`));
}
