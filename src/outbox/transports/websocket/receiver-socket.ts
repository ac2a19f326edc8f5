/** What a socket tells. */
export interface SocketListener {
  /** The client has acknowledged a message. */
  acked(messageId: string): void;
  /** The client gave a sign of life. */
  alive(): void;
  /** Once, when it is gone. */
  closed(): void;
}

/**
 * A connection to a receiver as the transport uses it: `ws` and socket.io sockets are understood as they are, for
 * others (server-sent events with a way back, MQTT) write this. Methods must not throw.
 */
export interface ReceiverSocket {
  readonly isOpen: boolean;
  /** Called once, before anything else. */
  listen(listener: SocketListener): void;
  /** Writes a frame, JSON text. It must not wait. */
  write(frame: string): void;
  /** Asks for a sign of life. Left out where the library closes dead connections by itself. */
  ping?(): void;
  /** The instance stops: the client shall connect to another one. */
  close(): void;
  /** It is taken for dead: ended without a farewell. */
  terminate(): void;
}

/** A socket of the package `ws`, as far as it is used. */
export interface WsSocket {
  readonly readyState: number;
  on(event: string, listener: (...args: never[]) => void): unknown;
  send(data: string, done: (error?: Error | null) => void): void;
  ping(): void;
  close(code: number, reason: string): void;
  terminate(): void;
}

/** A server-side socket of socket.io 4, as far as it is used. */
export interface SocketIoSocket {
  readonly connected: boolean;
  on(event: string, listener: (...args: never[]) => void): unknown;
  emit(event: string, ...args: unknown[]): unknown;
  disconnect(close: boolean): unknown;
}

export type AnySocket = WsSocket | SocketIoSocket | ReceiverSocket;
