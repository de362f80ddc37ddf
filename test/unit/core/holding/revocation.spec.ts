import { expect, it } from '@jest/globals';
import { clusterFactory } from '../support/cluster.ts';

const newCluster = clusterFactory();
const TTL_MS = 3_000;

it('a lock that is revoked is lost by its holder at the next extension, and free for others at the end of the lease, never both at once', async () => {
  const cluster = await newCluster();
  const holder = await cluster.process({ ttl: TTL_MS });
  const other = await cluster.process({ ttl: TTL_MS });
  for (let heldMs = 0; heldMs <= TTL_MS; heldMs += 125) {
    const key = `held for ${heldMs} ms`;
    const lock = await cluster.settle(holder.redlock.acquire(key));
    await cluster.advance(heldMs);
    let lostAtMs = Number.NaN;
    lock.signal.addEventListener('abort', () => (lostAtMs = cluster.nowMs));
    const revokedAtMs = cluster.nowMs;
    const waiting = other.redlock.acquire(key, { wait: '1m' });
    const { endsInMs } = await cluster.settle(other.redlock.revoke(key, 'ana', 'hangs'));
    const next = await cluster.settle(waiting);
    const grantedAtMs = cluster.nowMs;
    expect(lock.signal.reason).toMatchObject({ reason: 'revoked', revoked: 'by ana: hangs' });
    expect(lostAtMs - revokedAtMs).toBeLessThan(TTL_MS / 2);
    expect(grantedAtMs).toBeGreaterThan(lostAtMs);
    expect(Math.abs(grantedAtMs - revokedAtMs - endsInMs)).toBeLessThan(100);
    await cluster.settle(next.release());
  }
});
