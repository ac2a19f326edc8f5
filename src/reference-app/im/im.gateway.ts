import type { IncomingMessage } from 'node:http';
import { Inject } from '@nestjs/common';
import { type OnGatewayConnection, WebSocketGateway } from '@nestjs/websockets';
import type { WebSocket } from 'ws';
import { WebSocketReceivers } from '../../index.js';

const policyViolation = 1008;

/** Clients connect to `/ws?userId=`. A real application would ask for a token instead of believing them. */
@WebSocketGateway({ path: '/ws' })
export class ImGateway implements OnGatewayConnection {
  constructor(@Inject(WebSocketReceivers) private readonly receivers: WebSocketReceivers) {}

  handleConnection(socket: WebSocket, request: IncomingMessage): void {
    const userId = new URL(request.url ?? '', 'ws://here').searchParams.get('userId') ?? '';
    if (userId === '' || userId.length > 64) socket.close(policyViolation, 'userId: write 1 to 64 characters');
    else void this.receivers.connect(userId, socket);
  }
}
