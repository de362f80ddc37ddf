import { Socket } from 'node:net';

let writes = 0;
let isPatched = false;

/** Counts the write system calls of this process on sockets; call it again for the number since the first call. */
export function countWrites(): number {
  if (!isPatched) {
    isPatched = true;
    patch('_write');
    patch('_writev');
  }
  return writes;
}

/** `write` of a socket that is not writing calls one of them at once, each for one system call. */
function patch(method: '_write' | '_writev'): void {
  const original = Socket.prototype[method]! as (...args: unknown[]) => void;
  Socket.prototype[method] = function counted(this: Socket, ...args: unknown[]) {
    writes += 1;
    return original.apply(this, args);
  };
}
