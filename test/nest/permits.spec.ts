import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Fenced, FencingToken, LockService, fencingToken } from '../../lib/index.ts';
import { closeAll, startModule } from './support/applications.ts';
import { Gate } from './support/critical-section.ts';
import { Recorder } from './support/recorder.ts';

@Injectable()
class Api {
  readonly tokens: FencingToken[] = [];

  constructor(readonly locks: LockService) {}

  @Fenced('api:{0}', { permits: 2, claim: true, onBusy: 'skip' })
  async call(_id: string, work: () => unknown, @FencingToken() token = fencingToken()) {
    this.tokens.push(token);
    await work();
    return this.locks.current()?.slot;
  }

  @Fenced(['api:{0}', 'api:{1}'], { permits: 2 })
  async both(_from: string, _to: string): Promise<void> {}
}

afterEach(closeAll);

describe('a method under @Fenced with permits', () => {
  it('runs so many times at once, and claims the key of its slot at the fence', async () => {
    const claims: (readonly string[])[] = [];
    const fence = { claim: async ({ keys }: FencingToken) => void claims.push(keys) };
    const module = await startModule({ providers: [Api] }, { fence });
    const api = module.get(Api);
    const gate = new Gate();
    const calls = [1, 2].map(() => api.call('maps', () => gate.opened));
    while (api.tokens.length < 2) await new Promise((resolve) => setImmediate(resolve));
    expect(await api.call('maps', () => undefined)).toBeUndefined();
    gate.open();
    const slots = await Promise.all(calls);
    expect(new Set(slots)).toEqual(new Set([0, 1]));
    expect(new Set(claims.flat())).toEqual(new Set(['api:maps#slot:0', 'api:maps#slot:1']));
    expect(claims).toEqual(api.tokens.map(({ keys }) => keys));
  });

  it('says in the log, with its name, that somebody locks its key without permits', async () => {
    const recorder = new Recorder();
    const module = await startModule(
      { providers: [Api] },
      { fence: { claim: async () => undefined } },
    );
    module.useLogger(recorder);
    const api = module.get(Api);
    await api.locks.withLock('api:maps', () => undefined);
    await api.call('maps', () => undefined);
    await recorder.said('permits');
    expect(recorder.warnings).toMatch(
      /^warn Api\.call: Key "api:maps" has 2 permits here, and .*$/,
    );
  });

  it('does not run for several keys', async () => {
    const module = await startModule(
      { providers: [Api] },
      { fence: { claim: async () => undefined } },
    );
    await expect(module.get(Api).both('a', 'b')).rejects.toMatchObject({
      code: 'FENCED_USAGE',
      message: expect.stringMatching(/^Api\.both: The option permits is for one key/),
    });
  });
});
