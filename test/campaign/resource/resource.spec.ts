import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { FencingToken } from '../../../lib/core/fencing-token.ts';
import { readHistory } from '../../history/history-file.ts';
import type { AccessEvent } from '../campaign-event.ts';
import { ResourceClient } from './resource-client.ts';
import { Resource } from './resource.ts';

const older = new FencingToken(100, ['seat'], 'older');
const newer = new FencingToken(200, ['seat'], 'newer');

describe('the resource of the campaign', () => {
  let folder: string;
  let resource: Resource;
  let client: ResourceClient;

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'lock-resource-'));
    resource = await Resource.start(join(folder, 'resource.jsonl'));
    client = await ResourceClient.connect(resource.port);
  }, 30_000);

  afterEach(async () => {
    client.close();
    await resource.kill();
    rmSync(folder, { recursive: true });
  });

  it('refuses a stale write on the fenced view, takes it on the other, and writes down both', async () => {
    for (const view of ['fenced', 'unfenced'] as const) {
      expect(await client.read(view, 'seat', older)).toMatchObject({ accepted: true, value: 0 });
      expect(await client.read(view, 'seat', newer)).toMatchObject({ accepted: true, value: 0 });
      expect(await client.write(view, 'seat', newer, 1)).toMatchObject({ accepted: true });
      expect(await client.write(view, 'seat', older, 7)).toMatchObject({
        accepted: view === 'unfenced',
      });
      expect(await client.read(view, 'seat', newer)).toMatchObject({
        value: view === 'unfenced' ? 7 : 1,
      });
    }
    await resource.stop();
    const accesses = readHistory<AccessEvent>(join(folder, 'resource.jsonl'));
    expect(accesses.filter(({ accepted }) => !accepted)).toEqual([
      expect.objectContaining({ view: 'fenced', operation: 'write', token: 100, value: 7 }),
    ]);
    expect(accesses).toHaveLength(10);
    expect(accesses.map(({ at }) => at)).toEqual(
      accesses.map(({ at }) => at).toSorted((a, b) => a - b),
    );
  }, 30_000);

  it('keeps records apart', async () => {
    const other = new FencingToken(50, ['gate'], 'other');
    await client.write('fenced', 'seat', newer, 1);
    expect(await client.read('fenced', 'gate', other)).toMatchObject({ accepted: true, value: 0 });
  }, 30_000);
});
