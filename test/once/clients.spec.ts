import 'reflect-metadata';
import { describe } from '@jest/globals';
import { EACH_CLIENT, useClients } from '../fencing/support/use-clients.ts';
import { itIsDoneOnce } from './support/once-promises.ts';

describe('each driver and ORM', () => {
  const openClient = useClients();
  for (const [name, on] of EACH_CLIENT)
    itIsDoneOnce(`${name} on ${on}`, () => openClient(name, on));
});
