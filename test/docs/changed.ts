/**
 * What a reader makes of a file by the lines of a `diff` block: each line without a plus is found below the one before it, and a
 * new one comes after them.
 */
export function changed(text: string, diff: string): string {
  const lines = text.split('\n');
  let at = 0;
  for (const line of diff.trimEnd().split('\n')) {
    const content = line.slice(1);
    if (line.startsWith('+')) {
      lines.splice(at, 0, content);
    } else {
      at = lines.indexOf(content, at);
      if (at === -1) throw new Error(`A change looks for this line in vain: ${content}`);
      if (line.startsWith('-')) lines.splice(at, 1);
    }
    if (!line.startsWith('-')) at += 1;
  }
  return lines.join('\n');
}
