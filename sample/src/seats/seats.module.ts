import { Module } from '@nestjs/common';
import { DatabaseModule } from './database.module.ts';
import { PaymentProvider } from './payment-provider.ts';
import { SeatsRepository } from './seats.repository.ts';
import { SeatsService } from './seats.service.ts';

/** Needs from the application: `RedlockModule` with a fence, and `BookingJournal`. */
@Module({
  imports: [DatabaseModule],
  providers: [PaymentProvider, SeatsRepository, SeatsService],
  exports: [SeatsService, PaymentProvider],
})
export class SeatsModule {}
