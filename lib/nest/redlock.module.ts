import {
  ConfigurableModuleBuilder,
  Inject,
  Module,
  type DynamicModule,
  type FactoryProvider,
} from '@nestjs/common';
import { ModuleRef, ModulesContainer, type ApplicationConfig } from '@nestjs/core';
import { FencedUsageError } from '../core/errors.ts';
import { checkOptionNames } from '../core/options/option-names.ts';
import { Fence } from '../fencing/fence.ts';
import { LockService } from '../locks/lock-service.ts';
import { fenceOfNodes, type NodeInput } from '../locks/locks-options.ts';
import { checkApplication } from './fenced/boot-checks.ts';
import { FencedInterceptor } from './fenced/fenced.interceptor.ts';
import { StartCheck } from './fenced/start-check.ts';
import { MODULE_OPTIONS, RedlockHost } from './redlock-host.ts';
import type { RedlockModuleAsyncOptions, RedlockModuleOptions } from './redlock-module-options.ts';
import {
  FENCED_RUNNER,
  REDLOCK_HOST,
  REDLOCK_MODULE_OPTIONS,
  REDLOCK_NODES,
} from './redlock.constants.ts';
import { FieldResolverCheck } from './transport/field-resolver-check.ts';
import { LockExceptionFilter } from './transport/lock-exception.filter.ts';

/** `forRoot` and `forRootAsync`, global unless `isGlobal: false`. */
const { ConfigurableModuleClass } = new ConfigurableModuleBuilder<RedlockModuleOptions>({
  moduleName: 'Redlock',
  optionsInjectionToken: REDLOCK_MODULE_OPTIONS,
})
  .setClassMethodName('forRoot')
  .setFactoryMethodName('createRedlockOptions')
  .setExtras({ isGlobal: true as boolean }, (definition, { isGlobal }) => ({
    ...definition,
    global: isGlobal,
  }))
  .build();

// What @Inject does in a constructor: the class knows no Nest, because scripts use it, too.
Inject(REDLOCK_HOST)(LockService, undefined, 0);

/**
 * Distributed locks for the application. Call `forRoot` once, in the root module: a second one throws when the application
 * starts. It is global unless `isGlobal: false`; then keep what `forRoot` returned in a constant and import that where it is needed.
 *
 * It connects to the servers and checks them before the application starts, and throws when locks over them would not
 * be safe. Lock errors that reach a request are answered by {@link LockExceptionFilter}. On shutdown it gives no new locks, waits for held sections, releases, and closes its own connections.
 *
 * @example
 * ```ts
 * @Module({ imports: [RedlockModule.forRoot({ nodes: ['redis://localhost:6379'] })] })
 * export class AppModule {}
 * ```
 */
@Module({
  providers: [
    {
      // That of `forRoot` replaces it.
      provide: REDLOCK_MODULE_OPTIONS,
      useFactory: () => {
        throw new FencedUsageError(
          'RedlockModule alone has no servers: import RedlockModule.forRoot({ nodes }).',
        );
      },
    },
    {
      provide: REDLOCK_NODES,
      useFactory: (options?: RedlockModuleOptions) => options?.nodes,
      inject: [REDLOCK_MODULE_OPTIONS],
    },
    {
      provide: REDLOCK_HOST,
      useFactory: async (
        options: RedlockModuleOptions,
        nodes: readonly NodeInput[],
        modules: ModulesContainer,
        moduleRef: ModuleRef,
      ) => {
        const host = await RedlockHost.create(options, nodes);
        checkApplication(modules, host);
        if (options.httpErrors ?? true) answerErrors(moduleRef);
        return host;
      },
      inject: [REDLOCK_MODULE_OPTIONS, REDLOCK_NODES, ModulesContainer, ModuleRef],
    },
    LockService,
    FencedInterceptor,
    FieldResolverCheck,
    StartCheck,
    { provide: FENCED_RUNNER, useExisting: FencedInterceptor },
  ],
  exports: [LockService, FencedInterceptor, FENCED_RUNNER, REDLOCK_HOST],
})
export class RedlockModule extends ConfigurableModuleClass {
  /** @throws RedlockConfigError for a name that is no option at once, for a value when the application starts */
  static override forRoot(
    options: RedlockModuleOptions & { readonly isGlobal?: boolean },
  ): DynamicModule {
    checkOptionNames('RedlockModule', options, [...Object.keys(MODULE_OPTIONS), 'isGlobal']);
    const definition = super.forRoot(options);
    const fence = options.fence ?? fenceOfNodes(options.nodes);
    return fence === undefined ? definition : withFence(definition);
  }

  /** Like `forRoot`, with options that come from other providers. */
  static override forRootAsync(options: RedlockModuleAsyncOptions): DynamicModule {
    return withFence(super.forRootAsync(options));
  }
}

/**
 * Registers the filter before all of the application, which Nest asks first: the latest one is asked first. An `APP_FILTER` would
 * come after those of the root module.
 */
function answerErrors(moduleRef: ModuleRef): void {
  const { container } = moduleRef as unknown as {
    readonly container: { readonly applicationConfig: ApplicationConfig };
  };
  container.applicationConfig.useGlobalFilters(new LockExceptionFilter());
}

/** Provides the fence of the module where a constructor asks for `Fence`. */
function withFence(definition: DynamicModule): DynamicModule {
  const provider: FactoryProvider = {
    provide: Fence,
    useFactory: ({ fence }: RedlockHost) => fence,
    inject: [REDLOCK_HOST],
  };
  return {
    ...definition,
    providers: [...(definition.providers ?? []), provider],
    exports: [...(definition.exports ?? []), Fence],
  };
}
