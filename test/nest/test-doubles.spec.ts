import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Fenced, LockService, RedlockModule, type RedlockModuleOptions } from '../../lib/index.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';
import { closeAll, closeLater, redlockInMemory, silentLogger } from './support/applications.ts';

class Mail {
  async send(): Promise<string> {
    return 'sent';
  }
}

let bodyRuns = 0;

@Injectable()
class Reports {
  constructor(
    readonly mail: Mail,
    readonly locks: LockService,
  ) {}

  @Fenced('report:{0}')
  async build(_day: string): Promise<string> {
    bodyRuns += 1;
    return this.mail.send();
  }
}

@Injectable()
class Claims {
  @Fenced('report:{0}', { claim: true })
  async build(_day: string): Promise<void> {
    bodyRuns += 1;
  }
}

describe('a method under @Fenced among test doubles', () => {
  afterEach(closeAll);
  afterEach(() => {
    bodyRuns = 0;
  });

  const startWith = async (double: unknown, options: Partial<RedlockModuleOptions> = {}) => {
    const module = await Test.createTestingModule({
      imports: [redlockInMemory({ fence: { claim: async () => undefined }, ...options })],
      providers: [Reports, Claims, Mail],
    })
      .setLogger(silentLogger)
      .overrideProvider(LockService)
      .useValue(double)
      .compile();
    return closeLater(await module.init());
  };
  const withLock = async (_keys: unknown, work: (lock: unknown) => unknown) => work({});

  it.each([{}, 5, () => undefined])('says that %p runs no methods', async (double) => {
    const module = await Test.createTestingModule({ providers: [Reports] })
      .useMocker((token) => (token === Mail ? new Mail() : double))
      .compile();
    const call = module.get(Reports).build('monday');
    await expect(call).rejects.toMatchObject({
      code: 'FENCED_USAGE',
      where: 'Reports.build',
      message: expect.stringMatching(
        /^Reports\.build was called .* a test replaced .* was not run\.$/,
      ),
    });
    expect(bodyRuns).toBe(0);
  });

  it.each([
    ['withLock', {}, Reports, {}],
    ['withLock', null, Reports, {}],
    ['holds', { withLock }, Reports, { isInTransaction: () => true }],
    ['holds', { withLock }, Claims, {}],
  ] as const)('says that a LockService has no %s: %p', async (lacks, double, service, options) => {
    const module = await startWith(double, options);
    const call = module.get<Reports | Claims>(service).build('monday');
    const { name } = service;
    const pattern = `^${name}\\.build: LockService .* no ${lacks}\\(\\)\\. .* was not run\\..*REDLOCK_NODES.*nestjs-fenced-lock/testing`;
    await expect(call).rejects.toMatchObject({
      code: 'FENCED_USAGE',
      message: expect.stringMatching(new RegExp(pattern)),
    });
    expect(bodyRuns).toBe(0);
  });

  it('runs by a LockService that has what the call needs', async () => {
    const double: { withLock?: unknown } = {};
    const module = await startWith(double);
    double.withLock = withLock;
    expect(await module.get(Reports).build('monday')).toBe('sent');
  });

  it('locks by the module, beside a mocker for everything else', async () => {
    const module = await Test.createTestingModule({
      imports: [RedlockModule.forRoot({ nodes: createMemoryNodes(3) })],
      providers: [Reports],
    })
      .useMocker((token) => (token === Mail ? { send: async () => 'mocked' } : undefined))
      .setLogger(silentLogger)
      .compile();
    const reports = closeLater(await module.init()).get(Reports);
    expect(await reports.build('monday')).toBe('mocked');
    expect(await reports.locks.inspect('report:monday')).toMatchObject({ holder: null });
  });
});
