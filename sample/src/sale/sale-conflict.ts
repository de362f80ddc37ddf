/** Error when what was asked for is impossible at the moment; the message says why. */
export class SaleConflict extends Error {
  override readonly name = 'SaleConflict';
}
