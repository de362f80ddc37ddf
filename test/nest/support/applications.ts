import { setTimeout as sleep } from 'node:timers/promises';
import type { LoggerService, ModuleMetadata, Provider } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { jest } from '@jest/globals';
import { RedlockModule, type RedlockModuleOptions } from '../../../lib/index.ts';
import { createMemoryNodes } from '../../../lib/testing/index.ts';

/** Start-up reports and errors that tests provoke. */
export const silentLogger: LoggerService = { log() {}, warn() {}, error() {} };

const open: { close(): Promise<unknown> }[] = [];

/** An initialised application with a lock service over three nodes in memory; `closeAll` ends it. */
export async function startModule(
  metadata: ModuleMetadata & { providers?: Provider[] },
  options: Partial<RedlockModuleOptions> = {},
): Promise<TestingModule> {
  const module = await build(metadata, options);
  // Nest 11 starts an application that did not start once more when it is closed.
  await module.init();
  return closeLater(module);
}

/** The same, before Nest's init hooks. */
export async function compileModule(
  metadata: ModuleMetadata & { providers?: Provider[] },
  options: Partial<RedlockModuleOptions> = {},
): Promise<TestingModule> {
  return closeLater(await build(metadata, options));
}

function build(
  metadata: ModuleMetadata & { providers?: Provider[] },
  options: Partial<RedlockModuleOptions>,
): Promise<TestingModule> {
  return Test.createTestingModule({
    ...metadata,
    imports: [redlockInMemory(options), ...(metadata.imports ?? [])],
  })
    .setLogger(silentLogger)
    .compile();
}

export function redlockInMemory(options: Partial<RedlockModuleOptions> = {}) {
  return RedlockModule.forRoot({ nodes: createMemoryNodes(3), ...options });
}

export function closeLater<Closable extends { close(): Promise<unknown> }>(
  closable: Closable,
): Closable {
  open.push(closable);
  return closable;
}

/**
 * Stops the time of locks, nodes in memory and timers, which only `jest.advanceTimersByTimeAsync` moves: a machine that stops the
 * process takes none of it. Promises and sockets go on. `closeAll` ends it.
 */
export function stopTime(): void {
  jest.useFakeTimers({ doNotFake: ['hrtime', 'nextTick', 'queueMicrotask', 'setImmediate'] });
}

/** Lets time that was stopped pass in steps until `promise` is settled: for what needs sockets as well as timers. */
export async function passUntil<T>(promise: Promise<T>, stepMs: number): Promise<T> {
  let isSettled = false;
  const settle = () => void (isSettled = true);
  promise.then(settle, settle);
  for (; !isSettled; await sleep(1)) await jest.advanceTimersByTimeAsync(stepMs);
  return promise;
}

export async function closeAll(): Promise<void> {
  jest.useRealTimers();
  for (const closable of open.splice(0).reverse()) await closable.close();
}
