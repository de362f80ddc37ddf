import 'reflect-metadata';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { Logger, Module, type INestApplication, type Type } from '@nestjs/common';
import {
  Field,
  GraphQLModule,
  ObjectType,
  Query,
  ResolveField,
  ResolveReference,
  Resolver,
  type Enhancer,
} from '@nestjs/graphql';
import { Test } from '@nestjs/testing';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { Fenced } from '../../lib/index.ts';
import { createMemoryNodes, occupy } from '../../lib/testing/index.ts';
import { closeAll, closeLater, redlockInMemory } from './support/applications.ts';
import { Recorder } from './support/recorder.ts';

@ObjectType()
class Seat {
  @Field()
  readonly id: string = '1';
}

@Resolver(() => Seat)
class SeatResolver {
  @Query(() => Seat)
  @Fenced('query')
  async seat(): Promise<Seat> {
    return new Seat();
  }

  @Fenced('price', { wait: 0 })
  @ResolveField(() => String, { nullable: true })
  async above(): Promise<string> {
    return '12';
  }

  @ResolveField(() => String, { nullable: true })
  @Fenced('price', { wait: 0 })
  async below(): Promise<string> {
    return '12';
  }

  @ResolveReference()
  @Fenced('reference')
  async reference(): Promise<Seat> {
    return new Seat();
  }

  @ResolveField(() => String, { nullable: true })
  async unlocked(): Promise<string> {
    return '12';
  }
}

@Module({ providers: [SeatResolver] })
class Seats {}

@Resolver()
class OtherResolver {
  @Query(() => String)
  other(): string {
    return 'other';
  }
}

@Module({ providers: [OtherResolver] })
class Other {}

const recorder = new Recorder();
beforeEach(() => void recorder.lines.splice(0));
afterEach(closeAll);
afterEach(() => Logger.overrideLogger(false));

/** The options come late, as from a configuration service. */
async function start(fieldResolverEnhancers?: Enhancer[], include?: Type[]) {
  const graphql = GraphQLModule.forRootAsync<ApolloDriverConfig>({
    driver: ApolloDriver,
    useFactory: async () => ({
      autoSchemaFile: true,
      includeStacktraceInErrorResponses: false,
      fieldResolverEnhancers,
      include,
    }),
  });
  const nodes = createMemoryNodes(3);
  const imports = [redlockInMemory({ nodes }), Seats, Other, graphql];
  const module = await Test.createTestingModule({ imports }).setLogger(recorder).compile();
  const app: INestApplication = closeLater(module.createNestApplication());
  await app.listen(0, '127.0.0.1');
  return { nodes, url: `${await app.getUrl()}/graphql` };
}

it.each<[Enhancer[] | undefined]>([[undefined], [['guards', 'interceptors']]])(
  'a start warns of a locked field whose errors no filter sees (fieldResolverEnhancers: %j)',
  async (enhancers) => {
    await start(enhancers);
    const named = ['SeatResolver.above', 'SeatResolver.below', 'SeatResolver.reference'];
    expect(recorder.warnings.match(/SeatResolver\.\w+/g)).toEqual(named);
    expect(recorder.warnings).toContain("fieldResolverEnhancers: ['filters']");
  },
);

it('a start does not warn of the fields of another schema', async () => {
  await start(undefined, [Other]);
  expect(recorder.warnings).toBe('');
});

it('a locked field answers with its code, and a start is quiet, where filters see it', async () => {
  const { nodes, url } = await start(['filters']);
  expect(recorder.warnings).toBe('');
  await using _other = await occupy(nodes, 'price');
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query: '{ seat { above below } }' }),
  });
  const { errors } = (await response.json()) as { errors: object[] };
  const busy = { extensions: { code: 'LOCK_BUSY', retryAfterSeconds: 1 } };
  expect(errors).toMatchObject([busy, busy]);
  expect(JSON.stringify(errors)).not.toMatch(/price|SeatResolver/);
});
