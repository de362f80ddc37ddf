import {
  connectRedis,
  disconnect,
  load,
  whileWorking,
  type Library,
  type Locks,
} from '../library.ts';

/** The same in both libraries that are called so: `using` extends the lock, and its signal tells of a loss. */
export function redlock(name: string): Library {
  const open = async (urls: readonly string[], ttlMs: number): Promise<Locks> => {
    const module = load(name);
    const clients = connectRedis(urls);
    const locks = new (module.Redlock ?? module.default)(clients);
    locks.on('error', () => undefined);
    return {
      acquire: (key) =>
        whileWorking((work) =>
          locks.using([key], ttlMs, (signal: AbortSignal) =>
            work({ isHeld: () => !signal.aborted }),
          ),
        ),
      close: () => disconnect(clients),
    };
  };
  return {
    package: name,
    servers: 'redis',
    errors: ['ExecutionError', 'ResourceLockedError'],
    defaults: { what: 'one server, `using`', servers: 1, open },
    best: { what: 'five servers, `using`', servers: 5, open },
  };
}

export const library = redlock('redlock');
