import { Inject, Injectable, Logger, type OnModuleInit } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { prototypesOf } from '../fenced/boot-checks.ts';
import { fencedDefinition } from '../fenced/fenced-metadata.ts';

/** The metadata of @ResolveField and @ResolveReference, whose package is not loaded here. */
const IN_FIELDS = ['graphql:resolve_property', 'graphql:resolve_reference'];

type GraphqlOptions = Partial<Record<'fieldResolverEnhancers' | 'include', unknown[]>>;

/** Warns of locked methods that resolve a field of GraphQL where Nest asks no filter: the caller gets the error as it is. */
@Injectable()
export class FieldResolverCheck implements OnModuleInit {
  constructor(@Inject(ModulesContainer) private readonly modules: ModulesContainer) {}

  /** Not earlier: the options of GraphQL may come from other providers. */
  onModuleInit(): void {
    for (const { providers } of this.modules.values()) {
      const graphql = providers.get('GqlModuleOptions')?.instance as GraphqlOptions | undefined;
      if (!graphql || graphql.fieldResolverEnhancers?.includes('filters')) continue;
      const { include } = graphql;
      const served = [...this.modules].filter(
        ([, { metatype }]) => !include?.length || include.includes(metatype),
      );
      for (const prototype of prototypesOf(new Map(served)))
        for (const key of Reflect.ownKeys(prototype)) warnOfField(prototype, key);
    }
  }
}

function warnOfField(prototype: object, key: string | symbol): void {
  const definition = fencedDefinition(prototype, key);
  const method = definition && (prototype as Record<typeof key, object>)[key]!;
  if (!method || !IN_FIELDS.some((name) => Reflect.hasMetadata(name, method))) return;
  new Logger('RedlockModule').warn(
    `${definition.where} resolves a field of GraphQL, where Nest asks no filter: a caller would see the key of a lock error, and in an outage the addresses of the servers. Give GraphQLModule the option fieldResolverEnhancers: ['filters'].`,
  );
}
