import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Fenced, LockService, RedlockModule } from '../../lib/index.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';
import { closeAll, closeLater, silentLogger } from './support/applications.ts';

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

describe('a method under @Fenced among test doubles', () => {
  afterEach(closeAll);
  afterEach(() => {
    bodyRuns = 0;
  });

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
