import 'reflect-metadata';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import type { INestApplication } from '@nestjs/common';
import { Args, GraphQLModule, Mutation, Query, Resolver } from '@nestjs/graphql';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Fenced, FencingToken } from '../../lib/index.ts';
import { closeAll, closeLater, startModule } from './support/applications.ts';
import { CriticalSection } from './support/critical-section.ts';

const section = new CriticalSection();

@Resolver()
class SeatResolver {
  @Query(() => Boolean)
  healthy(): boolean {
    return true;
  }

  @Fenced('seat:{0}')
  @Mutation(() => String)
  async above(
    @Args('id', { type: () => String }) id: string,
    @FencingToken() token?: FencingToken,
  ) {
    await section.visit();
    return `${id} ${token?.keys.join()}`;
  }

  @Mutation(() => String)
  @Fenced('seat:{0}')
  async below(
    @Args('id', { type: () => String }) id: string,
    @FencingToken() token?: FencingToken,
  ) {
    await section.visit();
    return `${id} ${token?.keys.join()}`;
  }
}

describe('@Fenced on GraphQL resolvers', () => {
  afterEach(closeAll);
  afterEach(() => section.reset());

  it.each(['above', 'below'])('locks a mutation with @Fenced %s', async (name) => {
    const graphql = GraphQLModule.forRoot<ApolloDriverConfig>({
      driver: ApolloDriver,
      autoSchemaFile: true,
    });
    const module = await startModule({ imports: [graphql], providers: [SeatResolver] });
    const app: INestApplication = closeLater(module.createNestApplication());
    await app.listen(0, '127.0.0.1');
    const mutate = async () => {
      const response = await fetch(`${await app.getUrl()}/graphql`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ query: `mutation { ${name}(id: "1") }` }),
      });
      return response.json();
    };
    const answers = await Promise.all([mutate(), mutate(), mutate()]);
    expect(answers).toEqual([1, 2, 3].map(() => ({ data: { [name]: '1 seat:1' } })));
    expect(section.mostInside).toBe(1);
  });
});
