/** Why a connection is not ready yet, in the words that people read. */
export const NOT_AUTHORIZED = 'credentials() has not answered yet';
export const NOT_CONNECTED = 'not connected yet';
export const UNANSWERED =
  'the server accepted the connection but did not answer: it is frozen, is still loading its data, or has no TLS on this port';
export const NO_TLS =
  'no answer to the TLS handshake: does the server speak TLS on this port? Else write redis://';
export const CLOSED = 'the connection was closed';
export const UNASKED = 'the server sent a reply to no request';

const SHUT =
  ' before its first answer: no Redis answers there, or it speaks TLS on this port; then write rediss://';
const SHUT_TO_TLS =
  ': does it speak TLS on this port, and does it serve this host name (SNI)? For another name give tls: { servername }';

/**
 * What to look at where the server closed a first connection, as one does that waits for the handshake of TLS.
 *
 * @param error what the client said; empty when it was no more than that
 * @param isUnheard the server has never sent anything
 */
export function adviceAboutTls(error: string, usesTls: boolean, isUnheard: boolean): string {
  const advice = usesTls ? SHUT_TO_TLS : SHUT;
  if (/before secure TLS connection was established/.test(error)) return advice;
  const isClosed = error === '' || /\b(ECONNRESET|EPIPE)\b/.test(error);
  return isUnheard && isClosed ? advice : '';
}
