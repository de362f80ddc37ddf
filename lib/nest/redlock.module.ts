import {
  ConfigurableModuleBuilder,
  Module,
  type DynamicModule,
  type FactoryProvider,
} from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { RedlockConfigError } from '../core/errors.ts';
import { checkOptionNames, kindOf } from '../core/options/option-names.ts';
import { oneOf } from '../core/options/resolve-options.ts';
import { Fence } from '../fencing/fence.ts';
import { checkApplication } from './fenced/boot-checks.ts';
import { FencedInterceptor } from './fenced/fenced.interceptor.ts';
import { MODULE_OPTIONS, RedlockHost } from './host/redlock-host.ts';
import { LockService } from './lock.service.ts';
import type {
  NodeInput,
  OptionsOnly,
  RedlockModuleAsyncOptions,
  RedlockModuleOptions,
} from './redlock-module-options.ts';
import {
  FENCED_RUNNER,
  REDLOCK_HOST,
  REDLOCK_MODULE_OPTIONS,
  REDLOCK_NODES,
} from './redlock.constants.ts';

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

/**
 * Distributed locks for the application. Call `forRoot` once, in the root module: a second one is refused when the application
 * starts. It is global unless `isGlobal: false`; then keep what `forRoot` returned in a constant and import that where it is needed.
 *
 * It connects to the nodes and checks them before the application starts, and refuses to start when they can't be locked
 * with safely. On shutdown it refuses new locks, waits for held sections, releases, and closes its own connections.
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
      provide: REDLOCK_NODES,
      useFactory: (options?: RedlockModuleOptions) => options?.nodes,
      inject: [REDLOCK_MODULE_OPTIONS],
    },
    {
      provide: REDLOCK_HOST,
      useFactory: (
        options: RedlockModuleOptions,
        nodes: readonly NodeInput[],
        modules: ModulesContainer,
      ) => {
        const host = new RedlockHost(options, nodes);
        checkApplication(modules, host);
        return host;
      },
      inject: [REDLOCK_MODULE_OPTIONS, REDLOCK_NODES, ModulesContainer],
    },
    LockService,
    FencedInterceptor,
    { provide: FENCED_RUNNER, useExisting: FencedInterceptor },
  ],
  exports: [LockService, FencedInterceptor, FENCED_RUNNER, REDLOCK_HOST],
})
export class RedlockModule extends ConfigurableModuleClass {
  /** @throws RedlockConfigError (when the application starts; for `isGlobal` at once) naming the option, its value and the fix */
  static override forRoot(
    options: RedlockModuleOptions & { readonly isGlobal?: boolean },
  ): DynamicModule {
    const isText = options != null && typeof options !== 'object';
    if (isText || Array.isArray(options))
      checkOptionNames('forRoot', options, [...MODULE_OPTIONS, 'isGlobal']);
    checkIsGlobal(options?.isGlobal);
    const definition = super.forRoot(options ?? {});
    return options?.fence === undefined ? definition : withFence(definition);
  }

  /**
   * Like `forRoot`, with options that come from other providers.
   *
   * @throws RedlockConfigError at once when `options` don't say where they come from
   */
  static override forRootAsync<Made extends RedlockModuleOptions | Promise<RedlockModuleOptions>>(
    options: RedlockModuleAsyncOptions & {
      readonly useFactory?: (...dependencies: any[]) => Made & OptionsOnly<Made>;
    },
  ): DynamicModule {
    checkAsyncOptions(options);
    return withFence(withMethodCheck(super.forRootAsync(options), options));
  }
}

const SOURCES = ['useFactory', 'useClass', 'useExisting'] as const;
const ASYNC_OPTIONS = [...SOURCES, 'inject', 'imports', 'provideInjectionTokensFrom', 'isGlobal'];

function checkAsyncOptions(options: RedlockModuleAsyncOptions): void {
  const misplaced = Object.keys(options ?? {}).find((name) => MODULE_OPTIONS.includes(name));
  if (misplaced !== undefined) {
    const fix = `return it from useFactory, as in forRootAsync({ useFactory: () => ({ ${misplaced}: … }) })`;
    throw new RedlockConfigError(misplaced, undefined, fix, 'given here');
  }
  checkOptionNames('forRootAsync', options, ASYNC_OPTIONS);
  const given = SOURCES.filter((name) => options[name] != null);
  const [source = 'useFactory', second] = given;
  const fix = 'give one of useFactory, useClass and useExisting';
  if (given.length === 0) throw new RedlockConfigError(source, undefined, fix);
  if (second !== undefined)
    throw new RedlockConfigError(second, undefined, fix, `given beside ${source}`);
  // useExisting may be any token.
  if (source !== 'useExisting' && typeof options[source] !== 'function') {
    const what = source === 'useClass' ? 'the class' : 'a function that returns the options';
    throw new RedlockConfigError(source, undefined, `give ${what}`, kindOf(options[source]));
  }
  checkIsGlobal(options.isGlobal);
}

function checkIsGlobal(isGlobal: unknown): void {
  if (isGlobal !== undefined) oneOf('isGlobal', isGlobal, [true, false]);
}

/** Without it the class that makes the options would fail as "is not a function", which names neither the class nor us. */
function withMethodCheck(
  definition: DynamicModule,
  options: RedlockModuleAsyncOptions,
): DynamicModule {
  const source = options.useClass === undefined ? 'useExisting' : 'useClass';
  const maker = options[source];
  if (maker === undefined) return definition;
  const checked: FactoryProvider = {
    provide: REDLOCK_MODULE_OPTIONS,
    useFactory: (instance: { createRedlockOptions?: () => unknown }) => {
      if (typeof instance?.createRedlockOptions === 'function')
        return instance.createRedlockOptions();
      const fix = 'it needs a method createRedlockOptions() that returns the options';
      throw new RedlockConfigError(source, undefined, fix, instance?.constructor?.name);
    },
    inject: [maker],
  };
  const others = (definition.providers ?? []).filter(
    (each) => !('provide' in each) || each.provide !== REDLOCK_MODULE_OPTIONS,
  );
  return { ...definition, providers: [...others, checked] };
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
