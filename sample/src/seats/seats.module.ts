import { Inject, Module, type OnApplicationShutdown } from '@nestjs/common';
import { Pool } from 'pg';
import { PaymentProvider } from './payment-provider.ts';
import { SeatsRepository } from './seats.repository.ts';
import { SeatsService } from './seats.service.ts';

/** Needs from the application: `WORKER_NUMBER`, `BookingJournal` and the environment's `DATABASE_URL`. */
@Module({
  providers: [
    {
      provide: Pool,
      useFactory: () => new Pool({ connectionString: process.env['DATABASE_URL'], max: 5 }),
    },
    PaymentProvider,
    SeatsRepository,
    SeatsService,
  ],
  exports: [SeatsService, PaymentProvider],
})
export class SeatsModule implements OnApplicationShutdown {
  constructor(@Inject(Pool) private readonly pool: Pool) {}

  /** After the locks: RedlockModule lets held sections finish before. */
  async onApplicationShutdown(): Promise<void> {
    await this.pool.end();
  }
}
