// A BullMQ worker that imports files: twenty jobs at a time, and one at a time for each customer.
import 'reflect-metadata';
import { BullModule, OnWorkerEvent, Processor, WorkerHost } from '@nestjs/bullmq';
import { Injectable, Logger, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { DelayedError, type Job } from 'bullmq';
import { Fenced, isRedlockError, LockSignal, RedlockModule } from 'nestjs-fenced-lock';

export interface ImportJob {
  readonly customer: string;
  readonly file: string;
}

@Injectable()
export class Imports {
  /** Your import. Two files of one customer never meet here. */
  async load(_job: ImportJob, _lost?: AbortSignal): Promise<void> {}

  /** `wait: 0`: a job whose customer is busy doesn't occupy its worker. */
  @Fenced('import:{0.customer}', { wait: 0 })
  async run(job: ImportJob, @LockSignal() lost?: AbortSignal): Promise<void> {
    await this.load(job, lost);
  }
}

/** Neither is the job's fault. */
const LATER = new Set<string>(['LOCK_BUSY', 'QUORUM_UNAVAILABLE']);

@Processor('imports', { concurrency: 20 })
export class ImportProcessor extends WorkerHost {
  private readonly logger = new Logger(ImportProcessor.name);

  constructor(private readonly imports: Imports) {
    super();
  }

  /** A job whose customer is busy goes back to the queue, and comes again soon. */
  async process(job: Job<ImportJob>, jobToken?: string): Promise<void> {
    try {
      await this.imports.run(job.data);
    } catch (error) {
      if (!isRedlockError(error) || !LATER.has(error.code)) throw error;
      await job.moveToDelayed(Date.now() + 200, jobToken);
      throw new DelayedError();
    }
  }

  /** Runs before the locks shut down: a job that this worker has begun still needs its lock. */
  async onModuleDestroy(): Promise<void> {
    await this.worker.close();
  }

  /** A worker that BullMQ believes dead ends its run even when another one has the job. */
  @OnWorkerEvent('error')
  report(error: Error): void {
    this.logger.warn(error.message);
  }
}

@Module({
  imports: [
    RedlockModule.forRoot({
      // One server, or three or five that know nothing of each other.
      nodes: (process.env['REDIS_NODES'] ?? 'redis://localhost:6379').split(','),
    }),
    BullModule.forRoot({
      connection: { url: process.env['QUEUE_URL'] ?? 'redis://localhost:6379' },
    }),
    BullModule.registerQueue({ name: 'imports' }),
  ],
  providers: [Imports, ImportProcessor],
})
export class AppModule {}

async function bootstrap() {
  const app = await NestFactory.createApplicationContext(AppModule);
  // On SIGTERM, jobs that were begun end first, and then their locks are released.
  app.enableShutdownHooks();
  return app;
}

export const started = bootstrap();
