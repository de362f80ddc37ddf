// A nightly report that is built once per fleet, however many processes run this file.
import 'reflect-metadata';
import { Injectable, Logger, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { LockSignal, lockSignal, RedlockModule } from 'nestjs-fenced-lock';
import { FencedCron } from 'nestjs-fenced-lock/schedule';

/** Your reports, one customer at a time. */
@Injectable()
export class Reports {
  async customers(): Promise<string[]> {
    return ['ana', 'ben', 'cleo'];
  }

  async build(_customer: string): Promise<void> {}
}

@Injectable()
export class NightlyReport {
  private readonly logger = new Logger(NightlyReport.name);

  constructor(private readonly reports: Reports) {}

  /** Every process has the timer. One of them runs the job; the others skip, and so does one that is shutting down. */
  @FencedCron('0 3 * * *', { name: 'nightly', timeZone: 'Europe/Berlin' })
  async run(@LockSignal() lost = lockSignal()): Promise<void> {
    for (const customer of await this.reports.customers()) {
      // A process that was frozen, or lost the servers, stops here. Another one may have begun.
      lost.throwIfAborted();
      await this.reports.build(customer);
      this.logger.log(`The report for ${customer} is built.`);
    }
  }
}

@Module({
  imports: [
    RedlockModule.forRoot({
      // One server, or three or five that know nothing of each other.
      nodes: (process.env['REDIS_NODES'] ?? 'redis://localhost:6379').split(','),
      // With a fence, a ledger says which runs were missed, and they are made up for: see docs/cron.md.
    }),
  ],
  providers: [NightlyReport, Reports],
})
export class AppModule {}

async function bootstrap() {
  const app = await NestFactory.createApplicationContext(AppModule);
  // On SIGTERM, a report that is being built ends first, and then its lock is released.
  app.enableShutdownHooks();
  return app;
}

export const started = bootstrap();
