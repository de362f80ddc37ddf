import { createHash } from 'node:crypto';

/** A Lua script as the server knows it. Its header names KEYS, ARGV and every reply. */
export interface Script {
  readonly text: string;
  /** What EVALSHA asks for. */
  readonly sha1: string;
}

/** Turns the text in a module into what is sent: no blank line in front, so that errors name our line numbers. */
export function defineScript(lua: string): Script {
  const text = lua.trim();
  return Object.freeze({ text, sha1: createHash('sha1').update(text).digest('hex') });
}
