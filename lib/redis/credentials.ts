import type { ConnectionOptions } from 'node:tls';
import { checkOptionNames } from '../core/options/option-names.ts';
import { errorMessage } from './commands/node-failure.ts';

/** The proof that a server asks of a client that connects. */
export interface NodeCredentials {
  readonly username?: string;
  readonly password?: string;
  /** Added to the TLS options of the node; an empty object turns TLS on. */
  readonly tls?: ConnectionOptions;
}

const CREDENTIALS = ['username', 'password', 'tls'] satisfies (keyof NodeCredentials)[];

/** Returns what the next connection to a node takes. @param address the node, as messages name it */
export type CredentialsSource = (address: string) => NodeCredentials | Promise<NodeCredentials>;

/** Asks for what the next connection takes, and checks it. @throws Error with a message that says that `credentials` failed */
export async function askForCredentials(
  source: CredentialsSource,
  address: string,
): Promise<NodeCredentials> {
  const failed = (error: unknown) => {
    throw new Error(`credentials() failed: ${errorMessage(error)}`);
  };
  const given = await Promise.resolve(address).then(source).catch(failed);
  if (given == null) return {};
  checkOptionNames('credentials()', given, CREDENTIALS, 'credentials');
  const texts = [given.username, given.password];
  if (texts.some((text) => text != null && typeof text !== 'string'))
    throw new Error('credentials() has to give username and password as texts');
  return given;
}

/** How many passwords are remembered: each connection that is being made may have an earlier one. */
export const KEPT_SECRETS = 4;
/** So much of a long secret is in a message for certain, where a server quotes it. */
const QUOTED_LENGTH = 64;

/** The message without these secrets, should the server have quoted one; without line breaks, and not longer than a line or two. */
export function concealed(message: string, secrets: readonly unknown[]): string {
  let shown = inOneLine(message);
  for (const secret of secrets) {
    const text = typeof secret === 'string' ? inOneLine(secret) : '';
    if (text === '') continue;
    shown = shown.replaceAll(text, '***');
    // Servers quote no more than the beginning of a long one.
    const [before = '', ...after] = shown.split(text.slice(0, QUOTED_LENGTH));
    if (after.length > 0 && text.length > QUOTED_LENGTH) shown = `${before}***`;
  }
  return shown.length > 500 ? `${shown.slice(0, 500)}…` : shown;
}

function inOneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim();
}
