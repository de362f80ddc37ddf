import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { SqlDialect } from '../../../lib/fencing/index.ts';
import {
  AGED,
  itConforms,
  openAccounts,
  type Plain,
} from '../../../test/fencing/support/accounts.ts';
import {
  itKeepsItsPromises,
  type ClientFacts,
} from '../../../test/fencing/support/client-promises.ts';
import type { OpenClient } from '../../../test/fencing/support/clients.ts';
import { itIsDoneOnce } from '../../../test/once/support/once-promises.ts';
import { itKeepsRuns } from '../../../test/schedule/support/ledger-promises.ts';

/** Loads a package of this folder. */
export const loadPackage: NodeJS.Require = createRequire(
  join(process.cwd(), 'campaign/stores/package.json'),
);

/** Tests: the client passes the conformance kit, and keeps the promises of the others, and of the tables beside a fence. */
export function itFences(
  name: string,
  open: OpenClient,
  dialect: SqlDialect,
  plain: () => Plain,
  facts: Omit<ClientFacts, 'endings' | 'write'>,
): void {
  itConforms({
    [name]: async () => {
      const { isAged = true } = facts;
      const client = await open(facts.url(), isAged ? AGED : {});
      const { store, close } = await openAccounts(client, dialect, { read: plain().read });
      if (!isAged) for (const hook of ['maxAge', 'prune']) Reflect.deleteProperty(store, hook);
      return { store, close };
    },
  });
  itKeepsItsPromises(name, open, {
    ...facts,
    endings: [['COMMIT']],
    write: "UPDATE account SET text = 'x'",
  });
  itKeepsTables(name, () => open(facts.url()));
}

/** Tests: what is done once, and the runs of a job, are kept through this client. */
export function itKeepsTables(name: string, open: () => ReturnType<OpenClient>): void {
  itIsDoneOnce(name, open);
  itKeepsRuns(name, open);
}
