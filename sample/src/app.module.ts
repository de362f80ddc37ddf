import { Global, Module } from '@nestjs/common';
import { RedlockModule } from 'nestjs-fenced-lock';
import { Pool } from 'pg';
import { BookingJournal } from './seats/booking-journal.ts';
import { DatabaseModule } from './seats/database.module.ts';
import { seatFence } from './seats/seat-fence.ts';
import { SeatsModule } from './seats/seats.module.ts';
import { reportLockEvent, reportStep } from './stage/worker-reports.ts';

/** Module where the seats of a worker tell what they do. */
@Global()
@Module({
  providers: [
    { provide: BookingJournal, useValue: { record: reportStep } satisfies BookingJournal },
  ],
  exports: [BookingJournal],
})
class WorkerModule {}

/**
 * The application of every worker. The TTL is short so that the story is: a holder that stops loses its lock after two seconds.
 * A node that is new or was restarted may not vote for one `maxTtl` (here: the ttl), so on fresh servers the start takes two
 * seconds longer.
 */
@Module({
  imports: [
    RedlockModule.forRootAsync({
      imports: [DatabaseModule],
      inject: [Pool],
      useFactory: (pool: Pool) => ({
        nodes: (process.env['REDIS_NODES'] ?? '').split(','),
        fence: seatFence(pool),
        ttl: '2s',
        keyPrefix: process.env['LOCK_KEY_PREFIX'] ?? 'sample:',
        startupTimeout: '20s',
        onEvent: reportLockEvent,
      }),
    }),
    WorkerModule,
    SeatsModule,
  ],
})
export class AppModule {}
