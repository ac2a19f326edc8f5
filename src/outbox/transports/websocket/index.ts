/**
 * Messages to the sockets of their receivers.
 *
 *   receivers   gateways say whose each socket is (web-socket-receivers.ts); ws and socket.io are understood
 *   sockets     the table of this instance; each socket's unanswered frames are counted and bounded
 *   bus         Redis publish and subscribe to the other instances; none without Redis
 *   wakes       who connects is woken, so that what is parked for it leaves
 *
 * A frame goes to all sockets of the receiver on all instances. The first acknowledgement means sent. No socket anywhere:
 * offline, parked. Unanswered in time: the socket is taken for dead and closed, and the message is tried again. Closed
 * meanwhile: tried again at once, which finds out whether the receiver is offline; counted, so that a message that ends
 * its client ends. Redis away: sockets of this instance are served; for others the message is parked for a short time.
 *
 * Windows in which a client gets a message twice: as for every transport, and whenever its acknowledgement was lost with
 * its socket. Clients drop what they have seen by the message id.
 */
export type { AnySocket, ReceiverSocket, SocketIoSocket, SocketListener, WsSocket } from './receiver-socket.js';
export { WebSocketReceivers } from './web-socket-receivers.js';
export type { WebSocketTransportOptions } from './websocket-options.js';
export { websocketTransport } from './websocket-transport.js';
