import 'reflect-metadata';
import { Injectable, type OnModuleInit } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import Database from 'better-sqlite3';
import { sqliteFence } from '../../lib/fencing/index.ts';
import { Redlock } from '../../lib/core/redlock.ts';
import { RedlockConfigError, type ModuleFence } from '../../lib/index.ts';
import { Gate } from './support/critical-section.ts';
import { closeAll, closeLater, redlockInMemory } from './support/applications.ts';

/** What was logged when an application with this fence started. */
async function start(fence: ModuleFence, providers = [] as any[]): Promise<string[]> {
  const warnings: string[] = [];
  const logger = { log() {}, error() {}, warn: (message: string) => void warnings.push(message) };
  const imports = [redlockInMemory({ fence, startupTimeout: 200 })];
  const module = await Test.createTestingModule({ imports, providers }).setLogger(logger).compile();
  closeLater(await module.init());
  return warnings;
}

describe('an application that starts with a fence', () => {
  let database: Database.Database;
  beforeEach(() => void (database = new Database(':memory:')));
  afterEach(closeAll);
  afterEach(() => void database.close());

  it('does not start when its table could not refuse stale tokens, and is not kept alive', async () => {
    const fence = sqliteFence(database);
    database.exec(fence.ddl().replace('TEXT', 'TEXT COLLATE NOCASE'));
    const closed = jest.spyOn(Redlock.prototype, 'close');
    const error: unknown = await start(fence).catch((failure: unknown) => failure);
    expect(closed).toHaveBeenCalledTimes(1);
    closed.mockRestore();
    expect(error).toBeInstanceOf(RedlockConfigError);
    expect(String(error)).toMatch(
      /^RedlockConfigError: Option 'fence' can't be used: The fence table 'redlock_fence' .*differ in case for one.*ddl\(\) does\.$/,
    );
  });

  it('warns of a table that is missing, but not of one that a module creates when it starts', async () => {
    const fence = sqliteFence(database);
    expect(await start(fence)).toEqual([expect.stringContaining(fence.ddl())]);
    @Injectable()
    class Migration implements OnModuleInit {
      onModuleInit(): void {
        database.exec(fence.ddl());
      }
    }
    expect(await start(fence, [Migration])).toEqual([]);
  });

  it.each([
    ['is out of reach', () => Promise.reject(new Error('refused')), 'Error: refused'],
    ['does not answer', () => new Promise<never>(() => {}), 'no answer within 200 ms'],
  ])('starts although the database %s', async (_, check, why) => {
    const fence = { claim: async () => undefined, check };
    expect(await start(fence)).toEqual([
      `The table of the fence could not be checked: ${why}. The application starts all the same; until the database answers, fenced writes fail.`,
    ]);
  });

  it('ends the start when the application is closed while the database does not answer', async () => {
    const isChecking = new Gate();
    const check = () => {
      isChecking.open();
      return new Promise<never>(() => {});
    };
    const fence = { claim: async () => undefined, check };
    const imports = [redlockInMemory({ fence, startupTimeout: '1h' })];
    const module = await Test.createTestingModule({ imports }).compile();
    // Of an application without a server, Nest begins the shutdown after the start.
    const app = module.createNestApplication();
    const started = app.init();
    await isChecking.opened;
    await app.close();
    await expect(started).rejects.toMatchObject({ code: 'REDLOCK_CLOSED' });
  });

  it('starts with a fence that can not be checked', async () => {
    expect(await start({ claim: async () => undefined })).toEqual([]);
  });
});
