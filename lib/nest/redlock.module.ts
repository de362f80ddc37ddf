import { Module, type DynamicModule } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { refuseClaimsWithoutFence } from './fenced/claim-check.ts';
import { FencedInterceptor } from './fenced/fenced.interceptor.ts';
import { lockServiceAliases } from './lock-service-classes.ts';
import { LockService } from './lock.service.ts';
import { fenceAliases, moduleFenceProvider } from './module-fence.ts';
import { RedlockHost } from './host/redlock-host.ts';
import type { RedlockModuleAsyncOptions, RedlockModuleOptions } from './redlock-module-options.ts';
import {
  FENCED_RUNNER,
  IS_IN_TRANSACTION,
  MODULE_FENCE,
  REDLOCK_HOST,
  REDLOCK_MODULE_OPTIONS,
} from './redlock.constants.ts';
import { ConfigurableModuleClass } from './redlock.module-definition.ts';
import { refuseUnfilledTokenParameters } from './fenced/token-parameter-check.ts';

type Alias = ReturnType<typeof fenceAliases>[number];

const never = () => false;

/**
 * Distributed locks for the application. Import it once, in the root module; it is global unless `isGlobal: false`.
 *
 * It connects to the nodes and checks them before the application starts, and refuses to start when they can't be locked
 * with safely. On shutdown it refuses new locks, waits for held sections, releases, and closes its own connections.
 */
@Module({
  providers: [
    {
      provide: REDLOCK_HOST,
      useFactory: (options: RedlockModuleOptions, modules: ModulesContainer) => {
        refuseUnfilledTokenParameters(modules);
        if (options.fence === undefined) refuseClaimsWithoutFence(modules);
        return new RedlockHost(options);
      },
      inject: [REDLOCK_MODULE_OPTIONS, ModulesContainer],
    },
    {
      provide: IS_IN_TRANSACTION,
      useFactory: (options: RedlockModuleOptions) => options.isInTransaction ?? never,
      inject: [REDLOCK_MODULE_OPTIONS],
    },
    moduleFenceProvider,
    LockService,
    FencedInterceptor,
    { provide: FENCED_RUNNER, useExisting: FencedInterceptor },
  ],
  exports: [LockService, FencedInterceptor, FENCED_RUNNER, IS_IN_TRANSACTION, MODULE_FENCE],
})
export class RedlockModule extends ConfigurableModuleClass {
  /** @throws RedlockConfigError (when the application starts) naming the option, its value and the fix */
  static override forRoot(
    options: RedlockModuleOptions & { readonly isGlobal?: boolean },
  ): DynamicModule {
    const fences = options.fence === undefined ? [] : fenceAliases();
    return withAliases(super.forRoot(options), fences);
  }

  /** Like `forRoot`, with options that come from other providers. */
  static override forRootAsync(options: RedlockModuleAsyncOptions): DynamicModule {
    return withAliases(super.forRootAsync(options), fenceAliases());
  }
}

function withAliases(definition: DynamicModule, fences: Alias[]): DynamicModule {
  const aliases = [...lockServiceAliases(LockService), ...fences];
  return {
    ...definition,
    providers: [...(definition.providers ?? []), ...aliases],
    exports: [...(definition.exports ?? []), ...aliases.map(({ provide }) => provide)],
  };
}
