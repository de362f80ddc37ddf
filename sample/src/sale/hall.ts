const ROWS = ['A', 'B', 'C', 'D'];
const SEATS_PER_ROW = 6;

/** Ids of the seats of one evening, row by row: `A1/3` is the first seat on the third evening. */
export function seatsOf(evening: number): string[] {
  return ROWS.flatMap((row) =>
    Array.from({ length: SEATS_PER_ROW }, (_, index) => `${row}${index + 1}/${evening}`),
  );
}
