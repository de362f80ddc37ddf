import { load, type Library } from '../library.ts';

export const library: Library = {
  package: 'advisory-lock',
  servers: 'postgres',
  errors: [],
  defaults: {
    what: '`lock`, which has no ttl',
    servers: 1,
    open: async ([url]) => {
      const createMutex = load('advisory-lock').default(url);
      return {
        acquire: async (key) => {
          const unlock = await createMutex(key).lock();
          return { isHeld: () => undefined, release: unlock };
        },
        close: async () => undefined,
      };
    },
  },
};
