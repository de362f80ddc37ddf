import {
  Logger,
  type BeforeApplicationShutdown,
  type OnApplicationBootstrap,
  type OnModuleInit,
} from '@nestjs/common';
import type { LockNode } from '../core/nodes/lock-node.ts';
import { callback, checkOptions, flag, type OptionValues } from '../core/options/option-names.ts';
import { createNodes, LOCK_SERVICE_OPTIONS, LockHost } from '../locks/lock-host.ts';
import type { NodeInput } from '../locks/locks-options.ts';
import { NEWS_MS } from '../locks/startup.ts';
import type { RedlockModuleOptions } from './redlock-module-options.ts';

/** A test finds them in docs/options.md. */
export const MODULE_OPTIONS = {
  ...LOCK_SERVICE_OPTIONS,
  httpErrors: flag,
  isInTransaction: callback,
};

/** Starts and ends the application's locks with the application. */
export class RedlockHost
  extends LockHost
  implements OnModuleInit, OnApplicationBootstrap, BeforeApplicationShutdown
{
  readonly isInTransaction: (() => boolean) | undefined;

  /** Connects to nothing. @throws RedlockConfigError */
  static async create(
    options: RedlockModuleOptions,
    nodes: readonly NodeInput[],
  ): Promise<RedlockHost> {
    const checked = checkOptions('RedlockModule', MODULE_OPTIONS, options);
    return new RedlockHost(options, checked, await createNodes(nodes, checked));
  }

  private constructor(
    options: RedlockModuleOptions,
    checked: OptionValues<typeof MODULE_OPTIONS>,
    nodes: readonly LockNode[],
  ) {
    super(options, checked, new Logger('RedlockModule'), nodes);
    this.isInTransaction = checked.isInTransaction;
  }

  onModuleInit(): Promise<void> {
    return this.start();
  }

  /** Later than the hooks that connect to the database, or migrate it. */
  async onApplicationBootstrap(): Promise<void> {
    await this.checkFence();
    this.holdProcess(true);
    // Not at once: an application may ask for its hooks after listen(). One that handles a signal itself knows what it does.
    const look = () => {
      const isDeaf = ['SIGTERM', 'SIGINT'].every((signal) => process.listenerCount(signal) === 0);
      if (isDeaf && !this.redlock.isClosing)
        this.logger.warn(
          'This process has no listener for SIGTERM or SIGINT. When it is stopped, its work breaks off, and its locks stay until their ttl is over: call app.enableShutdownHooks().',
        );
    };
    setTimeout(look, NEWS_MS).unref();
  }

  /** Runs before the HTTP server stops: held sections may still answer their requests. */
  beforeApplicationShutdown(): Promise<void> {
    return this.shutDown();
  }
}
