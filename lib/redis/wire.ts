/** A word of a command, as it goes to the server. */
export type Word = string | number;

/** A command on its way: what is sent, and who receives the answer. One of the two is called, once. */
export interface WireCommand {
  readonly words: readonly Word[];
  answered(reply: unknown): void;
  /** @param error the server's refusal (a `ReplyError`), or why no answer will come; with {@link NOT_WRITABLE} nothing was sent */
  refused(error: unknown): void;
}

/** The beginning of the message of a command that was not sent. */
export const NOT_WRITABLE = "Stream isn't writeable";

/**
 * One connection to a server, from connecting to its end: what a node needs of a client library, and no more. It connects when it
 * is made, and never again. Each command gets one answer, in the order in which they were written, and none is sent twice.
 */
export interface Wire {
  /** Why it is not ready yet, or why it ended. */
  readonly problem: string;
  /** Commands can be written now. */
  readonly isReady: boolean;
  /** An answer is due. */
  readonly isAsked: boolean;
  /** The IP address at the other end. */
  readonly remoteAddress?: string | undefined;
  /** Resolves when the socket is closed. */
  readonly closed: Promise<unknown>;
  /** Writes these in their order, in one write where that is possible. */
  write(commands: readonly WireCommand[]): void;
  /** Receives messages from now on, and sends nothing else but PING. */
  subscribe(channel: string): Promise<unknown>;
  /** Whether the connection keeps this process alive. */
  hold(isHeld: boolean): void;
  /** Ends it: what was written goes out, and no answer arrives. */
  close(): void;
}

export interface WireListener {
  /** It is connected and authenticated, in its database, and the server does not load. Called once, or never. */
  ready(): void;
  /** Data has arrived. */
  received(): void;
  message(channel: string, text: string): void;
  /** Called once, also when it never was ready. Every command is settled by then, or is right after. */
  ended(): void;
}

/** Makes the connections of one node. */
export interface WireSource {
  /** The host and the port, or the path of a socket; of Sentinel and clusters those of the first server that is asked. */
  readonly address: string;
  /** The key prefix of the input, which locks don't use; empty when there is none. */
  readonly ignoredKeyPrefix: string;
  /** Who says which server is the primary; another one may be it tomorrow. */
  readonly foundBy?: 'sentinel' | 'cluster' | undefined;
  /** The name or the IP address that leads to the server; undefined where others say which server it is, or it is a socket. */
  readonly host: string | undefined;
  /** Starts to connect. @param host in place of that of the node */
  connect(listener: WireListener, host?: string): Wire;
  /** The message as it may be shown: without secrets and line breaks, and not too long. */
  conceal(message: string): string;
}
