import { Inject, Injectable, Logger, type OnModuleInit } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { prototypesOf } from '../fenced/boot-checks.ts';
import { fencedDefinition } from '../fenced/fenced-metadata.ts';

/** Names of GraphQL for Nest, which this package does not load. */
const GRAPHQL_OPTIONS = 'GqlModuleOptions';
const IN_FIELDS = ['graphql:resolve_property', 'graphql:resolve_reference'];

interface GraphqlOptions {
  readonly fieldResolverEnhancers?: readonly string[];
  readonly include?: readonly Function[];
}

/** Warns of locked methods that resolve a field of GraphQL where Nest asks no filter: the caller gets the error as it is. */
@Injectable()
export class FieldResolverCheck implements OnModuleInit {
  constructor(@Inject(ModulesContainer) private readonly modules: ModulesContainer) {}

  /** Not earlier: the options of GraphQL may come from other providers. */
  onModuleInit(): void {
    for (const { providers } of this.modules.values()) {
      const options = providers.get(GRAPHQL_OPTIONS)?.instance as GraphqlOptions | undefined;
      if (!options || options.fieldResolverEnhancers?.includes('filters')) continue;
      const { include = [] } = options;
      const served = [...this.modules].filter(
        ([, { metatype }]) => include.length === 0 || include.includes(metatype),
      );
      for (const prototype of prototypesOf(new Map(served))) warnOfFields(prototype);
    }
  }
}

function warnOfFields(prototype: object): void {
  for (const key of Reflect.ownKeys(prototype)) {
    const definition = fencedDefinition(prototype, key);
    if (!definition) continue;
    const method = (prototype as Record<string | symbol, object>)[key]!;
    if (IN_FIELDS.some((name) => Reflect.getMetadata(name, method)))
      new Logger('RedlockModule').warn(
        `${definition.where} resolves a field of GraphQL, where Nest asks no filter: a caller would see the key of a lock error, and in an outage the addresses of the servers. Give GraphQLModule the option fieldResolverEnhancers: ['filters'].`,
      );
  }
}
