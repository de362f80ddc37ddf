/** Options given to `RedlockModule.forRoot`. Nest prints the description where a dependency of `forRootAsync` is missing. */
export const REDLOCK_MODULE_OPTIONS = Symbol(
  'nestjs-fenced-lock/module-options: forRootAsync needs imports: [the module that exports what it injects]',
);

/**
 * The nodes of the application, those of the options unless a test replaces them. Nothing connects to the nodes that were replaced.
 *
 * @example
 * ```ts
 * const module = await Test.createTestingModule({ imports: [AppModule] })
 *   .overrideProvider(REDLOCK_NODES)
 *   .useValue(createMemoryNodes(3))
 *   .compile();
 * ```
 */
export const REDLOCK_NODES = Symbol('nestjs-fenced-lock/nodes');

/** The {@link RedlockHost} of the application. Nest prints the description where `LockService` is a provider without the module. */
export const REDLOCK_HOST = Symbol(
  'LockService: import RedlockModule.forRoot({ nodes }) from nestjs-fenced-lock',
);

/** Injection token of what runs the methods under `@Fenced`: the application's `FencedInterceptor`. */
export const FENCED_RUNNER = Symbol('nestjs-fenced-lock/fenced-runner');

/** Hidden property that receives the runner. Nest prints its description when the module is missing, so it says what to do. */
export const RUNNER_PROPERTY = Symbol(
  '@Fenced: import RedlockModule.forRoot({ nodes }) from nestjs-fenced-lock',
);

/** What a test writes that wants its locks in memory, or none. */
export const TEST_LINES =
  'A test that needs no Redis writes .overrideProvider(REDLOCK_NODES).useValue(createMemoryNodes(3)), and one that needs no locks .overrideProvider(FencedInterceptor).useValue({ run: async (_definition, _args, method) => method() }).';
