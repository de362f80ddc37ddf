// A whole process: starts, locks, closes, and must then end by itself. Arguments: the URLs.
import 'reflect-metadata';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Fenced, LockService, RedlockModule } from '../../../lib/index.ts';

const nodes = process.argv.slice(2);

@Injectable()
class Seats {
  @Fenced('seat:{0}')
  async book(seatId: string): Promise<string> {
    return `booked ${seatId}`;
  }
}

@Module({
  imports: [RedlockModule.forRoot({ nodes, restartGuard: false, startupTimeout: '2s' })],
  providers: [Seats],
})
class AppModule {}

async function main(): Promise<void> {
  const app = await NestFactory.createApplicationContext(AppModule, {
    logger: false,
    abortOnError: false,
  });
  process.stdout.write(`${await app.get(Seats).book('1')}\n`);
  // A waiter subscribes: that connection must be closed, too.
  const locks = app.get(LockService);
  const lock = await locks.acquire('seat:2');
  const waiting = locks.acquire('seat:2', { wait: '20s' });
  await lock.release();
  await (await waiting).release();
  await app.close();
  process.stdout.write('done\n');
}

main().catch((error: unknown) => {
  process.stderr.write(`${String(error)}\n`);
  process.exitCode = 1;
});
