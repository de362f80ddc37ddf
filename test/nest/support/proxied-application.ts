// A process in which nestjs-cls puts a Proxy in front of a provider, and that prints who held the lock of its method.
import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ClsModule, ClsService, InjectableProxy } from 'nestjs-cls';
import { Fenced, isRedlockError, LockService, RedlockModule } from '../../../lib/index.ts';
import { createMemoryNodes, occupy } from '../../../lib/testing/index.ts';

@InjectableProxy()
class Basket {
  constructor(private readonly locks: LockService) {}

  @Fenced('basket:{0}', { wait: 0 })
  async add(id: string): Promise<readonly string[] | undefined> {
    return this.locks.current()?.keys.concat(id);
  }
}

const nodes = createMemoryNodes(3);

@Module({
  imports: [
    ClsModule.forRoot({ global: true }),
    ClsModule.forFeature(Basket),
    RedlockModule.forRoot({ nodes }),
  ],
})
class AppModule {}

const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
const cls = app.get(ClsService);
const basket = app.get(Basket, { strict: false });
const printed = await cls.run(async () => {
  await cls.proxy.resolve();
  const added = await basket.add('1');
  await using _other = await occupy(nodes, 'basket:1');
  const refused: unknown = await basket.add('1').catch((error: unknown) => error);
  return [added, isRedlockError(refused) && refused.code];
});
await app.close();
process.stdout.write(JSON.stringify(printed));
