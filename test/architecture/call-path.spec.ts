import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';

describe('one uncontended call under @Fenced, on three servers', () => {
  const servers = useRedisServers(3);

  it('runs through few files, functions and calls of the library', async () => {
    const loader = ['--import', './test/support/typescript-loader.mjs'];
    const { stdout } = await promisify(execFile)(process.execPath, [
      ...loader,
      'test/architecture/count-calls.ts',
      ...servers.map(({ url }) => url),
    ]);
    const counted = JSON.parse(stdout) as { files: number; functions: number; calls: number };
    expect(counted.files).toBeGreaterThan(15);
    expect(counted.files).toBeLessThanOrEqual(29);
    expect(counted.functions).toBeLessThanOrEqual(125);
    expect(counted.calls).toBeLessThanOrEqual(250);
  }, 60_000);
});
