// A whole process that is closed while its start waits for votes, and must then end by itself. Arguments: how it is closed
// ('SIGTERM' comes from outside), the key prefix, the URLs.
import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { isRedlockError, RedlockModule } from '../../../lib/index.ts';

const [how, keyPrefix = '', ...nodes] = process.argv.slice(2);

@Module({ imports: [RedlockModule.forRoot({ nodes, keyPrefix, ttl: '1m', startupTimeout: '1m' })] })
class AppModule {}

const app = await NestFactory.create(AppModule, {
  abortOnError: false,
  logger: {
    log(message: string) {
      if (!message.startsWith('Waiting')) return;
      process.stdout.write('waiting\n');
      if (how !== 'SIGTERM') void app.close();
    },
    warn() {},
    error() {},
  },
});
app.enableShutdownHooks();
try {
  await app.listen(0);
  process.stdout.write('listens\n');
} catch (error) {
  process.stdout.write(`closed ${isRedlockError(error) ? error.code : String(error)}\n`);
}
