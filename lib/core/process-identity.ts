import { RedlockConfigError } from './errors.ts';
import { describeProcess } from './system-environment.ts';

/** A process as it described itself: for people only, because all who may use the locks may write it. */
export interface ProcessIdentity {
  /** The name of the machine, or the pod. */
  readonly host?: string;
  /** The number of the process there. */
  readonly pid?: number;
  /** `npm_package_name`, or the file that was started. */
  readonly application?: string;
  /** `npm_package_version`. */
  readonly version?: string;
  /** The time of its start, as ISO 8601. */
  readonly startedAt?: string;
  /** The words that the option `identity` returned, in place of all others. */
  readonly text?: string;
}

/** How long a server keeps what a process said of itself, once it no longer says so. */
export const IDENTITY_LIFE_MS = 60_000;

/** Writes who this process is, as the servers keep it. @throws RedlockConfigError */
export function identityOf(own: (() => string) | undefined): string {
  const text: unknown = own?.();
  if (own !== undefined && typeof text !== 'string')
    throw new RedlockConfigError('identity', text, 'give false, or a function that returns a text');
  return JSON.stringify(own === undefined ? describeProcess() : { text });
}

/** Reads what {@link identityOf} wrote; undefined where it is missing or something else. */
export function parseIdentity(kept: string | null | undefined): ProcessIdentity | undefined {
  try {
    const said = JSON.parse(kept ?? 'null') as unknown;
    return typeof said === 'object' && said !== null ? said : undefined;
  } catch {
    return undefined;
  }
}

/** A line about a process, for people: short, and without what could steer a terminal. */
export function processText(process: ProcessIdentity): string {
  const { application = 'a process', version = '', host, pid, startedAt, text } = process;
  const line = text ?? `${application} ${version} on ${host} (pid ${pid}, started ${startedAt})`;
  return printable(line.replaceAll('  ', ' '));
}

export function printable(text: unknown, most = 200): string {
  return String(text)
    .slice(0, most)
    .replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, ' ');
}

/** Begins what stands in place of a holder that was revoked; no mark of a process has a colon. */
const REVOKED = 'revoked:';

export function revokedText(value: string | null | undefined): string | undefined {
  return value?.startsWith(REVOKED) ? printable(value.slice(REVOKED.length)) : undefined;
}

/** What stands in place of a holder that a newer call replaced: that holder follows. RELEASE knows it by the same words. */
const REPLACED = `${REVOKED}by a newer call, in place of `;

export function replacedValue(holder: string): string {
  return REPLACED + holder;
}

/** The holder that was replaced; undefined where the value is no word of {@link replacedValue}. */
export function replacedHolder(value: string): string | undefined {
  return value.startsWith(REPLACED) ? value.slice(REPLACED.length) : undefined;
}

/** The value that says by whom and why a lock was revoked. */
export function revokedValue(by: unknown, reason: unknown): string {
  return `${REVOKED}by ${printable(by ?? 'somebody')}: ${printable(reason ?? 'no reason given')}`;
}
