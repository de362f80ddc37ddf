import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import Database from 'libsql';
import { Fenced } from '../../lib/index.ts';
import { Fence, sqliteFence } from '../../lib/fencing/index.ts';
import { FencedJob, FencingToken, fencingToken } from '../../lib/jobs/index.ts';
import {
  closeAll,
  closeLater,
  redlockInMemory,
  silentLogger,
} from '../nest/support/applications.ts';

afterEach(closeAll);

const runOf = (attemptsStarted: number, id = '1') => ({
  queueQualifiedName: 'bull:reports',
  id,
  timestamp: 1_796_000_000_000,
  attemptsStarted,
});

const forged = { value: 9_000_000_000_000_000, keys: [], holder: 'forged' } as never;

@Injectable()
class Reports {
  readonly seen: unknown[] = [];

  @FencedJob()
  async render(job: object, _lock?: string, @FencingToken() token = fencingToken()) {
    this.seen.push([job, String(token)]);
    return token.value;
  }
}

function memoryFence() {
  const database = new Database(':memory:');
  const fence = sqliteFence(database);
  database.exec(fence.ddl());
  return fence;
}

async function start<Class>(Service: new () => Class, imports: any[] = [], fence?: object) {
  const given = fence ?? memoryFence();
  const providers = [Service, { provide: Fence, useValue: given }] as never[];
  const building = Test.createTestingModule({ imports, providers });
  const module = closeLater(await building.setLogger(silentLogger).compile());
  await module.init();
  return { service: module.get(Service), fence: given as Fence };
}

describe('a method under @FencedJob', () => {
  it('gets the token of its job, in an application that has no locks', async () => {
    const { service } = await start(Reports);
    const job = runOf(1);
    const value = await service.render(job, 'lock of the queue', forged);
    expect(value).toBe(1_796_000_000_000_001);
    expect(service.seen).toEqual([[job, '1796000000000001']]);
  });

  it('does not run when a newer run has reached the fence, nor with a count that was set back', async () => {
    const { service } = await start(Reports);
    await service.render(runOf(2));
    for (const stale of [runOf(1), runOf(2)])
      await expect(service.render(stale)).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    await service.render(runOf(1, '2'));
    expect(service.seen).toHaveLength(2);
  });

  it('does not run for what is no job, nor before the fence has answered', async () => {
    const { service, fence } = await start(Reports);
    await expect(service.render({})).rejects.toThrow('needs one job');
    fence.claim = () => Promise.reject(new Error('no connection'));
    await expect(service.render(runOf(1))).rejects.toThrow('no connection');
    expect(service.seen).toEqual([]);
  });

  it('does not run on an instance that Nest did not build', async () => {
    const service = new Reports();
    await expect(service.render(runOf(1))).rejects.toThrow('Reports.render was called without');
    expect(service.seen).toEqual([]);
  });

  it('fails at the start where the application has no fence', async () => {
    const starting = Test.createTestingModule({ providers: [Reports] }).compile();
    await expect(starting).rejects.toThrow('provide: Fence');
  });

  it('runs beside RedlockModule, under a lock as well, and has the token of the job', async () => {
    class Imports {
      @Fenced('customer:{0.data.customer}')
      @FencedJob()
      async run(_job: object, @FencingToken() token = fencingToken()) {
        return token.keys;
      }
    }
    const { service } = await start(Imports, [redlockInMemory()]);
    const keys = await service.run({ ...runOf(1), data: { customer: 'ana' } });
    expect(keys).toEqual(['bullmq/bull%3Areports/1/1796000000000']);
  });

  it('is refused where a lock below it would replace its token', () => {
    expect(() => {
      class Imports {
        @FencedJob()
        @Fenced('customer:{0.id}')
        async run(_job: object, @FencingToken() _token = fencingToken()) {}
      }
      return Imports;
    }).toThrow('Imports.run: put @Fenced above @FencedJob()');
  });
});
