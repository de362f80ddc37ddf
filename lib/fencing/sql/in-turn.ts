/** By connection, a promise that resolves when its last transaction has ended, however that ended. */
const lastTurns = new WeakMap<object, Promise<unknown>>();

/** Runs the transactions of fences over a connection one after another. @param connection that has no second one beside it */
export function inTurn<Result>(connection: object, run: () => Promise<Result>): Promise<Result> {
  const turn = (lastTurns.get(connection) ?? Promise.resolve()).then(run);
  lastTurns.set(
    connection,
    turn.catch(() => undefined),
  );
  return turn;
}
