/**
 * Injection tokens and hidden property names. All come from the global symbol registry, because one process may load this
 * package twice (as ES module and as CommonJS), and both copies must mean the same thing.
 */

/**
 * Options given to `RedlockModule.forRoot`. Nest prints the description where the bare class was imported, and where a dependency of
 * `forRootAsync` is missing.
 */
export const REDLOCK_MODULE_OPTIONS = Symbol.for(
  'nestjs-fenced-lock/module-options: import RedlockModule.forRoot({ nodes }), not RedlockModule alone; forRootAsync also needs imports: [the module that exports what it injects]',
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
export const REDLOCK_NODES = Symbol.for('nestjs-fenced-lock/nodes');

/** The {@link RedlockHost} of the application. */
export const REDLOCK_HOST = Symbol.for('nestjs-fenced-lock/host');

/** What runs the methods under `@Fenced`: the `FencedInterceptor` of the application. */
export const FENCED_RUNNER = Symbol.for('nestjs-fenced-lock/fenced-runner');

/** Hidden property that receives the runner. Nest prints its description when the module is missing, so it says what to do. */
export const RUNNER_PROPERTY = Symbol.for(
  '@Fenced: import RedlockModule.forRoot({ nodes }) from nestjs-fenced-lock',
);
