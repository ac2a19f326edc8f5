import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { IoAdapter } from '@nestjs/platform-socket.io';
import { WsAdapter } from '@nestjs/platform-ws';
import { type OnGatewayConnection, WebSocketGateway } from '@nestjs/websockets';
import { type Socket as ClientSocket, io } from 'socket.io-client';
import { WebSocket } from 'ws';
import {
  type OutboxOptions,
  type SocketIoSocket,
  WebSocketReceivers,
  type WebSocketTransportOptions,
  websocketTransport,
} from '../../src/index.js';
import type { TestDatabase } from './database.js';
import { opened } from './open-resources.js';
import { type OutboxApp, startOutboxApp } from './outbox-app.js';

/** An instance with a gateway whose clients say who they are: `?userId=`. */
export interface WebSocketApp extends OutboxApp {
  readonly port: number;
  readonly receivers: WebSocketReceivers;
}

export interface WebSocketAppOptions {
  readonly kind?: 'ws' | 'socket.io';
  readonly transport?: Partial<WebSocketTransportOptions>;
  readonly outbox?: Partial<OutboxOptions>;
}

/** Starts an instance on a free port; its relay runs unless told otherwise. */
export async function startWebSocketApp(
  database: TestDatabase,
  { kind = 'ws', transport, outbox }: WebSocketAppOptions = {},
): Promise<WebSocketApp> {
  const receivers = new WebSocketReceivers();
  const running = await startOutboxApp(database, {
    providers: [{ provide: WebSocketReceivers, useValue: receivers }, kind === 'ws' ? wsGateway() : ioGateway()],
    prepare: (app) => app.useWebSocketAdapter(kind === 'ws' ? new WsAdapter(app) : new IoAdapter(app)),
    outbox: {
      enabled: true,
      pollInterval: 50,
      transports: { im: websocketTransport({ receivers, ...transport }) },
      ...outbox,
    },
  });
  try {
    await running.app.listen(0, '127.0.0.1');
  } catch (error) {
    await running.close();
    throw error;
  }
  const { port } = running.app.getHttpServer().address() as AddressInfo;
  return { ...running, port, receivers };
}

function wsGateway() {
  @WebSocketGateway({ path: '/ws' })
  class WsGateway implements OnGatewayConnection {
    constructor(private readonly receivers: WebSocketReceivers) {}

    handleConnection(socket: WebSocket, request: IncomingMessage): void {
      const userId = new URL(request.url ?? '', 'ws://here').searchParams.get('userId') ?? '';
      void this.receivers.connect(userId, socket);
    }
  }
  return WsGateway;
}

function ioGateway() {
  @WebSocketGateway()
  class IoGateway implements OnGatewayConnection {
    constructor(private readonly receivers: WebSocketReceivers) {}

    handleConnection(socket: SocketIoSocket & { handshake: { query: Record<string, unknown> } }): void {
      void this.receivers.connect(String(socket.handshake.query.userId), socket);
    }
  }
  return IoGateway;
}

export interface ReceivedFrame {
  readonly messageId: string;
  readonly event: string;
  readonly seqNo: number | string | null;
  readonly payload: unknown;
}

export interface TestClient {
  /** Everything that came, repetitions included. */
  readonly frames: ReceivedFrame[];
  readonly isOpen: boolean;
  /** Resolves when it is gone. */
  readonly closed: Promise<unknown>;
  close(): Promise<void>;
}

export interface ClientOptions {
  /** What it does with a frame. Default: answers. */
  readonly onFrame?: (frame: ReceivedFrame, answer: () => void) => void;
  readonly path?: string;
}

const answering: NonNullable<ClientOptions['onFrame']> = (_frame, answer) => answer();

/** A client with the package `ws`. Resolves when it is connected. */
export async function wsClient(
  { port }: { readonly port: number },
  userId: string,
  { onFrame = answering, path = '/ws' }: ClientOptions = {},
): Promise<TestClient & { readonly socket: WebSocket }> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}${path}?userId=${encodeURIComponent(userId)}`);
  const frames: ReceivedFrame[] = [];
  socket.on('message', (data: Buffer) => {
    const frame = JSON.parse(data.toString('utf8')) as ReceivedFrame;
    frames.push(frame);
    onFrame(frame, () => socket.send(JSON.stringify({ ack: frame.messageId })));
  });
  const closed = once(socket, 'close').finally(() => done());
  closed.catch(() => undefined);
  const close = async () => {
    if (socket.readyState === WebSocket.CLOSED) return;
    socket.terminate();
    await closed.catch(() => undefined);
  };
  const done = opened({ what: `the ws client of ${userId}`, close });
  await once(socket, 'open');
  socket.on('error', () => undefined);
  return {
    frames,
    socket,
    closed,
    get isOpen() {
      return socket.readyState === WebSocket.OPEN;
    },
    close,
  };
}

/** A client with the package `socket.io-client`, which does not connect again by itself. */
export async function ioClient(
  { port }: { readonly port: number },
  userId: string,
  { onFrame = answering }: ClientOptions = {},
): Promise<TestClient & { readonly socket: ClientSocket }> {
  const socket = io(`http://127.0.0.1:${port}`, { query: { userId }, transports: ['websocket'], reconnection: false });
  const frames: ReceivedFrame[] = [];
  socket.on('message', (frame: ReceivedFrame, answer: (body: unknown) => void) => {
    frames.push(frame);
    onFrame(frame, () => answer({ ack: frame.messageId }));
  });
  const closed = new Promise((resolve) => socket.on('disconnect', resolve)).finally(() => done());
  const close = async () => {
    socket.disconnect();
    done();
  };
  const done = opened({ what: `the socket.io client of ${userId}`, close });
  await new Promise<void>((resolve, reject) => {
    socket.on('connect', resolve);
    socket.on('connect_error', reject);
  });
  return {
    frames,
    socket,
    closed,
    get isOpen() {
      return socket.connected;
    },
    close,
  };
}
