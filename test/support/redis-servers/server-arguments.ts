import { posix } from 'node:path';
import type { RedisServerOptions } from './redis-server.ts';

/** The command line of redis-server for these options; `directory` holds the files of `serverFiles`. */
export function serverArguments(
  options: RedisServerOptions,
  port: number,
  directory: string,
): string[] {
  const file = (name: string) => posix.join(directory, name);
  if (options.sentinel) return [file('sentinel.conf'), '--sentinel', '--port', String(port)];
  const result = ['--save', '', '--appendonly', options.appendonly ? 'yes' : 'no'];
  if (options.tls) {
    const clients = options.tls.clientCertificates ? 'yes' : 'no';
    result.push('--port', '0', '--tls-port', String(port), '--tls-auth-clients', clients);
    result.push('--tls-cert-file', file('tls.crt'), '--tls-key-file', file('tls.key'));
    result.push('--tls-ca-cert-file', file('tls.ca'));
  } else {
    result.push('--port', String(port));
  }
  if (options.acl) result.push('--aclfile', file('users.acl'));
  if (options.requirepass) result.push('--requirepass', options.requirepass);
  return [...result, ...(options.args ?? [])];
}

/** Names and texts of the files which the command line refers to. */
export function serverFiles({
  acl,
  tls,
  sentinel,
}: RedisServerOptions): [name: string, text: string][] {
  const files: [string, string][] = [];
  if (sentinel) files.push(['sentinel.conf', '']);
  if (acl) files.push(['users.acl', `${acl.join('\n')}\n`]);
  if (tls) files.push(['tls.crt', tls.cert], ['tls.key', tls.key], ['tls.ca', tls.ca]);
  return files;
}

/** The user as whom readiness checks and the URL log in. */
export function loginOf(options: RedisServerOptions): RedisServerOptions['user'] {
  if (options.user) return options.user;
  return options.requirepass ? { name: 'default', password: options.requirepass } : undefined;
}

/** The URL by which a client reaches the server, with its login. */
export function serverUrl(host: string, port: number, options: RedisServerOptions): string {
  const login = loginOf(options);
  const credentials = login
    ? `${encodeURIComponent(login.name)}:${encodeURIComponent(login.password)}@`
    : '';
  return `${options.tls ? 'rediss' : 'redis'}://${credentials}${host}:${port}`;
}
