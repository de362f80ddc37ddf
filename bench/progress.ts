/** Says how far a scenario is. */
export type ProgressOf = (scenario: string) => (share: number) => void;

/** A line on the terminal that counts up; without a terminal, one line when it begins. */
export const progressOf: ProgressOf = (scenario) => {
  const isTerminal = process.stderr.isTTY;
  if (!isTerminal) process.stderr.write(`${scenario} …\n`);
  return (share) => {
    if (!isTerminal) return;
    const end = share >= 1 ? '\n' : '';
    process.stderr.write(`\r\x1b[K${scenario} ${Math.round(share * 100)} %${end}`);
  };
};
