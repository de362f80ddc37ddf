import type { Socket } from 'node:net';

const NOTHING = Buffer.alloc(0);

/**
 * Closes a connection with a reset (RST): the other end gets an error, and what the system had not sent yet is thrown
 * away. A socket that is not connected is destroyed.
 */
export function resetSocket(socket: Socket): void {
  if (socket.destroyed) return;
  if (socket.pending) socket.destroy();
  // Between shutdown() and its completion node refuses to reset, and would leak the socket.
  else if (socket.writableEnded && !socket.writableFinished) {
    socket.once('finish', () => resetSocket(socket));
  } else socket.resetAndDestroy();
}

/** Calls `action` when all that was written has been handed to the system; never when the socket dies before. */
export function whenWritten(socket: Socket, action: () => void): void {
  if (socket.destroyed) return;
  if (socket.writableLength === 0 || socket.writableEnded) action();
  else socket.write(NOTHING, (error) => (error ? undefined : action()));
}
