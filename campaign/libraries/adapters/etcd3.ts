import { setTimeout as sleep } from 'node:timers/promises';
import { load, type Library, type Lock, type Locks } from '../library.ts';

const RETRY_MS = 50;
const WAIT_MS = 5_000;

/** Its lock does not wait: who wants it tries again. */
async function trying(take: () => Promise<Lock>): Promise<Lock> {
  const { EtcdLockFailedError } = load('etcd3');
  for (const untilMs = performance.now() + WAIT_MS; ; await sleep(RETRY_MS)) {
    try {
      return await take();
    } catch (error) {
      if (!(error instanceof EtcdLockFailedError) || performance.now() > untilMs) throw error;
    }
  }
}

const open = async (
  [hosts]: readonly string[],
  take: (client: any, key: string) => Promise<Lock>,
): Promise<Locks> => {
  const client = new (load('etcd3').Etcd3)({ hosts });
  return {
    acquire: (key) => trying(() => take(client, key)),
    close: async () => client.close(),
  };
};

async function lock(client: any, key: string, ttlMs: number): Promise<Lock> {
  const taken = await client
    .lock(key)
    .ttl(ttlMs / 1_000)
    .acquire();
  return { isHeld: () => undefined, release: () => taken.release() };
}

/** The same steps with a lease of one's own: it tells of its loss, and the revision of the key is a token. */
async function leased(client: any, key: string, ttlMs: number): Promise<Lock> {
  const lease = client.lease(ttlMs / 1_000);
  lease.on('lost', () => undefined);
  const put = client
    .put(key)
    .value('')
    .lease(await lease.grant());
  const { succeeded, header } = await client.if(key, 'Create', '==', 0).then(put).commit();
  const release = () => lease.revoke();
  if (succeeded) return { isHeld: () => !lease.revoked(), release, token: Number(header.revision) };
  await release();
  throw new (load('etcd3').EtcdLockFailedError)('It is held.');
}

export const library: Library = {
  package: 'etcd3',
  servers: 'etcd',
  errors: ['EtcdLockFailedError', 'EtcdLeaseInvalidError', 'GRPCUnavailableError'],
  defaults: {
    what: '`lock`, tried again',
    servers: 1,
    open: (urls, ttlMs) => open(urls, (client, key) => lock(client, key, ttlMs)),
  },
  best: {
    what: 'a lease with its event `lost`, and the revision as a token',
    servers: 1,
    open: (urls, ttlMs) => open(urls, (client, key) => leased(client, key, ttlMs)),
  },
};
