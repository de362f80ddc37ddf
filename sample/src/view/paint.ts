import { styleText } from 'node:util';

type Format = Parameters<typeof styleText>[0];

/** Colours text, or leaves it alone. */
export type Paint = (format: Format, text: string) => string;

/** Colours for a terminal, unless NO_COLOR is set. */
export function paintFor(output: NodeJS.WriteStream): Paint {
  const isColoured = output.isTTY && !process.env['NO_COLOR'];
  return isColoured ? (format, text) => styleText(format, text) : (_, text) => text;
}
