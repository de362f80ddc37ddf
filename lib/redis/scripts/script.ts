import { createHash } from 'node:crypto';

/** A Lua script as the server knows it. Its header names KEYS, ARGV and every reply. */
export interface Script {
  readonly text: string;
  /** What EVALSHA asks for. */
  readonly sha1: string;
}

/** Text as it stands in a module to what is sent: no blank line in front, so that line numbers in errors are ours. */
export function defineScript(lua: string): Script {
  const text = lua.trim();
  return Object.freeze({ text, sha1: createHash('sha1').update(text).digest('hex') });
}
