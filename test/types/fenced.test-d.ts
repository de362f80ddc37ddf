// Checked by `npm run typecheck`: an error that is expected and does not come fails it.
import { of, type Observable } from 'rxjs';
import { Fenced, FencingToken } from '../../lib/index.ts';

interface Seat {
  readonly id: string;
}

export class Accepted {
  @Fenced('seat:{0}')
  async template(_seatId: string): Promise<number> {
    return 1;
  }

  @Fenced(['seat:{0}', 'user:{1}'])
  async templates(_seatId: string, _userId: string): Promise<void> {}

  @Fenced((seatId: string) => `seat:${seatId}`, { ttl: '10s', wait: 0 })
  async firstParameter(
    _seatId: string,
    _userId: string,
    @FencingToken() _token?: FencingToken,
  ): Promise<void> {}

  @Fenced((seat: Seat, count: number) => [`seat:${seat.id}`, `count:${count}`])
  async allParameters(_seat: Seat, _count: number): Promise<void> {}

  @Fenced(({ id }: { id: string | number }) => `seat:${id}`)
  async widerParameter(_seat: Seat): Promise<void> {}

  @Fenced(() => 'all')
  async noParameters(_seat: Seat): Promise<void> {}

  @Fenced('job', { onBusy: 'skip', release: 'sent' })
  async skipVoid(): Promise<void> {}

  @Fenced('job', { onBusy: 'skip' })
  async skipUndefined(): Promise<number | undefined> {
    return 1;
  }

  @Fenced('job', { onBusy: 'replace' })
  async replacing(): Promise<number> {
    return 1;
  }

  @Fenced('job', { onBusy: 'attach' })
  async attached(): Promise<string> {
    return 'done';
  }

  @Fenced('job', { onBusy: 'throw' })
  async throwing(): Promise<number> {
    return 1;
  }

  @Fenced('seat:{0}')
  async generic<Item extends Seat>(item: Item): Promise<Item> {
    return item;
  }

  @Fenced('seat:{0}')
  protected async hidden(_seatId: string): Promise<void> {}
}

export class Refused {
  // @ts-expect-error the method has a string, the key function wants a number
  @Fenced((seatId: number) => `seat:${seatId}`)
  async otherType(_seatId: string): Promise<void> {}

  // @ts-expect-error the key function has more parameters than the method
  @Fenced((seatId: string, userId: string) => `seat:${seatId}:${userId}`)
  async moreParameters(_seatId: string): Promise<void> {}

  // @ts-expect-error a parameter without a type is of type never
  @Fenced((seatId) => `seat:${String(seatId)}`)
  async untypedParameter(_seatId: string): Promise<void> {}

  // @ts-expect-error an optional parameter may be undefined
  @Fenced((seatId: string) => `seat:${seatId}`)
  async optional(_seatId?: string): Promise<void> {}

  // @ts-expect-error a key is a string
  @Fenced((seatId: number) => seatId)
  async numberKey(_seatId: number): Promise<void> {}

  // @ts-expect-error synchronous
  @Fenced('seat')
  synchronous(): number {
    return 1;
  }

  // @ts-expect-error an Observable
  @Fenced('seat')
  observable(): Observable<number> {
    return of(1);
  }

  // @ts-expect-error a generator
  @Fenced('seat')
  *generator(): Generator<number> {
    yield 1;
  }

  // @ts-expect-error an asynchronous generator
  @Fenced('seat')
  async *asyncGenerator(): AsyncGenerator<number> {
    yield 1;
  }

  // @ts-expect-error skip resolves undefined
  @Fenced('seat', { onBusy: 'skip' })
  async skip(): Promise<number> {
    return 1;
  }

  // @ts-expect-error not an option
  @Fenced('seat', { tll: '10s' })
  async unknownOption(): Promise<void> {}

  // @ts-expect-error not a duration
  @Fenced('seat', { ttl: '10 seconds' })
  async notADuration(): Promise<void> {}

  // @ts-expect-error not a method
  @Fenced('seat')
  property = 1;
}

const untyped = Fenced((seatId) => `seat:${seatId as string}`);
type Untyped = Parameters<typeof untyped<(seatId: string) => Promise<void>>>[2];

/** The name of the member that the descriptor lacks is what the compiler shows. */
export const messageOfTheCompiler: keyof Untyped =
  'The parameters of the key function must be the first parameters of the method, and have their types written: (id: string) => ...';

export async function callersNeverPassTheToken(seats: Accepted): Promise<void> {
  await seats.firstParameter('12A', 'ana');
  // @ts-expect-error what the decorator does does not loosen the method's own parameters
  await seats.firstParameter(12, 'ana');
}

export function tokensCompare(older: FencingToken, newer: FencingToken): boolean {
  // @ts-expect-error a token never changes
  older.value = 1;
  return older < newer && older.value < newer.value;
}
