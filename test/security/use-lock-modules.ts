import { Test } from '@nestjs/testing';
import type { LoggerService } from '@nestjs/common';
import { LockService, RedlockModule, type RedlockModuleOptions } from '../../lib/index.ts';
import { useClosing } from '../support/use-redlocks.ts';

/** An application as users start it. */
export interface LockModule {
  readonly locks: LockService;
  close(): Promise<void>;
}

/** Starts applications with a lock module. They are closed after each test; one whose start is refused is closed at once. */
export function useLockModules(): (
  options: RedlockModuleOptions,
  logger?: LoggerService,
) => Promise<LockModule> {
  const closing = useClosing();
  return async (options, logger = { log() {}, warn() {}, error() {} }) => {
    const redlock = RedlockModule.forRoot({ startupTimeout: '1m', ...options });
    const builder = Test.createTestingModule({ imports: [redlock] }).setLogger(logger);
    const module = await builder.compile();
    try {
      await module.init();
    } catch (error) {
      await module.close().catch(() => undefined);
      throw error;
    }
    let closed: Promise<void> | undefined;
    return closing({
      locks: module.get(LockService),
      close: () => (closed ??= module.close()),
    });
  };
}
