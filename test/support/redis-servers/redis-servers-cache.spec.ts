import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { mkdir, mkdtemp, readFile, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { cachedFolder } from './cached-folder.ts';

const environment = { ...process.env };
let cache: string;
let root: string;
let made: number;

beforeEach(async () => {
  cache = await mkdtemp(join(tmpdir(), 'cached-folder-'));
  process.env.XDG_CACHE_HOME = cache;
  root = join(cache, 'nestjs-fenced-lock');
  made = 0;
});

afterEach(async () => {
  process.env = { ...environment };
  await rm(cache, { recursive: true, force: true });
});

/** Two files with a pause between them: a caller that sees the folder half made finds one. */
async function make(folder: string): Promise<void> {
  made += 1;
  const text = String(made);
  await writeFile(join(folder, 'first'), text);
  await sleep(5);
  await writeFile(join(folder, 'second'), text);
}

async function check(folder: string): Promise<void> {
  const [first, second] = await Promise.all(
    ['first', 'second'].map((name) => readFile(join(folder, name), 'utf8')),
  );
  if (first !== second) throw new Error(`mixed: ${first} and ${second}`);
}

describe('cachedFolder', () => {
  it('makes the folder once, below the cache directory of the user', async () => {
    expect(await cachedFolder('redis', make, check)).toBe(join(root, 'redis'));
    expect(await cachedFolder('redis', make, check)).toBe(join(root, 'redis'));
    expect(made).toBe(1);
    expect(await readdir(root)).toEqual(['redis']);
  });

  it('gives concurrent callers the same complete folder, and leaves nothing else', async () => {
    const folders = await Promise.all(
      Array.from({ length: 8 }, () => cachedFolder('redis', make, check)),
    );
    expect(new Set(folders)).toEqual(new Set([join(root, 'redis')]));
    await check(join(root, 'redis'));
    expect(await readdir(root)).toEqual(['redis']);
  });

  it('leaves no folder when making fails, and makes it the next time', async () => {
    const fail = async (folder: string) => {
      await writeFile(join(folder, 'first'), 'half');
      throw new Error('no network');
    };
    await expect(cachedFolder('redis', fail, check)).rejects.toThrow('no network');
    expect(await readdir(root)).toEqual([]);
    await check(await cachedFolder('redis', make, check));
  });

  it('replaces a folder that has been damaged', async () => {
    const folder = await cachedFolder('redis', make, check);
    await rm(join(folder, 'second'));
    await check(await cachedFolder('redis', make, check));
    expect(made).toBe(2);
    expect(await readdir(root)).toEqual(['redis']);
  });

  it('removes what a killed process left, but not what another is making now', async () => {
    await mkdir(join(root, 'redis.1-old'), { recursive: true });
    await utimes(join(root, 'redis.1-old'), new Date(0), new Date(0));
    await mkdir(join(root, 'redis.2-new'));
    await cachedFolder('redis', make, check);
    expect((await readdir(root)).sort()).toEqual(['redis', 'redis.2-new']);
  });
});
