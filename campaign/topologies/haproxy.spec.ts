import { afterEach, describe, expect, it } from '@jest/globals';
import { closeAll, closeLater } from '../../test/nest/support/applications.ts';
import { startHaproxy } from './haproxy.ts';
import { Contenders, startPair } from './replicated-pair.ts';

afterEach(closeAll);

describe('behind an HAProxy that asks for the role of each server, a held lock has no second holder', () => {
  it.each([
    ['keeps connections to a server that went down', ''],
    ['ends connections to a server that went down', 'on-marked-down shutdown-sessions'],
  ])('when roles are swapped and it %s', async (_, ofServer) => {
    const [primary, replica] = await startPair();
    const proxy = closeLater(await startHaproxy([primary.server, replica.server], ofServer));
    const contenders = await Contenders.start(proxy.url);
    await replica.follow(primary);
    await replica.lag();
    await contenders.hold();
    await contenders.contend(async () => {
      await replica.promote();
      await primary.follow(replica);
    });
    expect(contenders.overlaps).toBe(0);
  });
});
