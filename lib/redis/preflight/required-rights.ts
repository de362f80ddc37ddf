/** Every command that is sent, by us or inside our scripts. With a database other than 0 also `select`. */
export const REQUIRED_COMMANDS: readonly string[] = Object.freeze([
  'info',
  'script|load',
  'evalsha',
  'eval',
  'time',
  'mget',
  'get',
  'exists',
  'set',
  'psetex',
  'pttl',
  'del',
  'publish',
  'subscribe',
  'unsubscribe',
]);

/** The rules of an ACL user that may do what a lock node needs, and nothing else. */
export function requiredAclRules(keyPrefix: string): string {
  const commands = REQUIRED_COMMANDS.map((command) => `+${command}`).join(' ');
  return `resetchannels ~${keyPrefix}* &${keyPrefix}* -@all ${commands}`;
}
