import { Inject, Logger, Module, type OnApplicationShutdown } from '@nestjs/common';
import { Pool } from 'pg';

/** The connections to PostgreSQL, for the seats and for their fence. Needs the environment's `DATABASE_URL`. */
@Module({
  providers: [
    {
      provide: Pool,
      useFactory: () =>
        // An idle connection that PostgreSQL ends is an event, and without a listener the end of the process.
        new Pool({ connectionString: process.env['DATABASE_URL'], max: 5 }).on('error', (error) =>
          new Logger('PostgreSQL').warn(error.message),
        ),
    },
  ],
  exports: [Pool],
})
export class DatabaseModule implements OnApplicationShutdown {
  constructor(@Inject(Pool) private readonly pool: Pool) {}

  /** Ends the pool after the locks: RedlockModule lets held sections finish before. */
  async onApplicationShutdown(): Promise<void> {
    await this.pool.end();
  }
}
