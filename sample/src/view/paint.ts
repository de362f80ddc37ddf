import { styleText } from 'node:util';

type Format = Extract<Parameters<typeof styleText>[0], string>;

/** Colours text, or leaves it alone. */
export type Paint = (format: Format | readonly Format[], text: string) => string;

/** Colours for a terminal, unless NO_COLOR is set. */
export function paintFor(output: NodeJS.WriteStream): Paint {
  const isColoured = output.isTTY && !process.env['NO_COLOR'];
  return isColoured
    ? (format, text) => styleText([format].flat() as Format[], text)
    : (_, text) => text;
}
