import 'reflect-metadata';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { SchedulerRegistry } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { afterAll, afterEach, describe, expect, it } from '@jest/globals';
import { LockService } from '../../lib/index.ts';
import { closeAll, closeLater, silentLogger } from '../nest/support/applications.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';

const readme = readFileSync('README.md', 'utf8');

/** The only TypeScript block of the README that contains `text`. */
function blockWith(text: string): string {
  const blocks = [...readme.matchAll(/^```ts\n(.+?)^```$/gms)].map(([, code]) => code!);
  const found = blocks.filter((code) => code.includes(text));
  if (found.length !== 1) throw new Error(`${found.length} blocks of the README contain ${text}`);
  return found[0]!;
}

/** The blocks as files, with what the first one leaves to its reader, and with statements that a test can call. */
const FILES: Readonly<Record<string, string>> = {
  'seat.service.ts': `
    import { Injectable } from '@nestjs/common';
    import { Fenced, FencingToken } from 'nestjs-fenced-lock';
    ${blockWith('export class SeatService').replace(/^await (.+)$/m, 'export const useSeats = (seats: SeatService) => $1')}`,
  'reports.service.ts': blockWith('export class ReportService'),
  'app.module.ts': blockWith('export class AppModule'),
  'reports.spec.ts': `
    export const tests: (() => Promise<void>)[] = [];
    const it = (_name: string, test: () => Promise<void>) => tests.push(test);
    ${blockWith('createMemoryNodes(3)')}`,
};

const PACKAGES = {
  'nestjs-fenced-lock/testing': resolve('lib/testing/index.ts'),
  'nestjs-fenced-lock': resolve('lib/index.ts'),
};

describe('the first blocks of the README', () => {
  afterEach(closeAll);
  const folders: string[] = [];
  afterAll(() => folders.forEach((folder) => rmSync(folder, { recursive: true })));
  const servers = useRedisServers(3);

  /** Writes the files, each after this edit, where the packages of this repository are found. */
  function writeFiles(edit: (code: string) => string): string {
    const folder = mkdtempSync(join(tmpdir(), 'readme-'));
    folders.push(folder);
    symlinkSync(resolve('node_modules'), join(folder, 'node_modules'));
    for (const [file, code] of Object.entries(FILES)) writeFileSync(join(folder, file), edit(code));
    return folder;
  }

  /** The same with servers that exist, and the package as it is here. */
  function writeForServers(): string {
    const urls = servers.map(({ url }) => url);
    return writeFiles((code) => {
      let text = code.replaceAll(/redis:\/\/10\.0\.0\.\d/g, () => urls.shift()!);
      for (const [name, path] of Object.entries(PACKAGES))
        text = text.replaceAll(`'${name}'`, `'${path}'`);
      return text;
    });
  }

  it('are TypeScript without errors', async () => {
    const folder = writeFiles((code) => code);
    const paths = Object.fromEntries(
      Object.entries(PACKAGES).map(([name, path]) => [name, [path]]),
    );
    const compilerOptions = { module: 'esnext', moduleResolution: 'bundler', paths };
    const settings = { extends: resolve('tsconfig.json'), compilerOptions, include: ['*.ts'] };
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(settings));
    const compile = [resolve('node_modules/typescript/bin/tsc'), '-p', folder];
    const run = promisify(execFile)(process.execPath, compile);
    const { stdout } = await run.catch((error: { stdout: string }) => error);
    expect(stdout).toBe('');
  });

  it('boot, lock on the servers, and leave nothing held but the nightly run', async () => {
    const folder = writeForServers();
    const { AppModule } = await import(join(folder, 'app.module.ts'));
    const { ReportService } = await import(join(folder, 'reports.service.ts'));
    const { SeatService, useSeats } = await import(join(folder, 'seat.service.ts'));
    const building = Test.createTestingModule({ imports: [AppModule], providers: [SeatService] });
    const app = await building.setLogger(silentLogger).compile();
    closeLater(await app.init());
    expect(app.get(SchedulerRegistry).getCronJobs().size).toBe(1);
    const reports = app.get(ReportService);
    // The first one waits until the new servers may vote.
    await useSeats(app.get(SeatService));
    await reports.build('monday');
    await reports.nightly();
    for (const _again of [1, 2]) await reports.byHand();
    const keys = ['seat:12A', 'report:monday', 'report:all', 'account:1', 'account:2', 'nightly'];
    const known = await Promise.all(keys.map((key) => app.get(LockService).inspect(key)));
    expect(known.filter(({ lastToken }) => lastToken === '0')).toEqual([]);
    const held = known.filter(({ holder }) => holder !== null).map(({ key }) => key);
    expect(held).toEqual(['nightly']);
  });

  it('have a test of their own that passes without Redis, within the time limit of a test', async () => {
    const { tests } = await import(join(writeForServers(), 'reports.spec.ts'));
    for (const test of tests) await expect(test()).resolves.toBeUndefined();
    expect(tests).toHaveLength(1);
  }, 5_000);
});
