import { githubHeaders, standardWebhookHeaders } from '../../src/reference-app/demo/signing.js';
import type { RandomRequest } from './random-request.js';

/** The secrets of the application that gets the requests. */
export interface Secrets {
  readonly orders: string;
  readonly github: string;
  readonly contracts: string;
}

/** The bytes on the wire. Only a signature's time differs between two calls. `id` keeps pushes apart. */
export function wireBytes(request: RandomRequest, secrets: Secrets, id: string): Buffer {
  const { method, target: path, version, headers, body: content } = request;
  const toGithub = path.includes('github');
  const signed =
    request.signed === 'not'
      ? {}
      : toGithub === (request.signed === 'rightly')
        ? githubHeaders(secrets.github, 'push', id, content)
        : standardWebhookHeaders(path.includes('contracts') ? secrets.contracts : secrets.orders, id, content);
  const lines = [
    `${method} ${path} ${version}`,
    'host: 127.0.0.1',
    ...Object.entries(signed).map(([name, value]) => `${name}: ${value}`),
    ...headers.map(([name, value]) => `${name}: ${value}`),
    ...framingLines(request),
  ];
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), framedBody(request)]);
}

/** Whether the server can know that the request is complete: then it owes an answer. */
export function isComplete({ framing }: RandomRequest): boolean {
  return framing !== 'too-long' && framing !== 'bad-chunks';
}

function framingLines({ framing, body: { length } }: RandomRequest): string[] {
  switch (framing) {
    case 'length':
      return [`content-length: ${length}`];
    case 'chunked':
    case 'bad-chunks':
      return ['transfer-encoding: chunked'];
    case 'too-short':
      return [`content-length: ${length >> 1}`];
    case 'too-long':
      return [`content-length: ${length + 10}`];
    case 'none':
      return [];
    case 'both':
      return [`content-length: ${length}`, 'transfer-encoding: chunked'];
    case 'twice':
      return [`content-length: ${length}`, `content-length: ${length + 1}`];
    case 'nonsense':
      return ['content-length: -1'];
  }
}

function framedBody({ framing, body: content }: RandomRequest): Buffer {
  if (framing === 'bad-chunks') return Buffer.concat([Buffer.from('5\r\nabc'), content]);
  if (framing !== 'chunked' && framing !== 'both') return content;
  const middle = content.length >> 1;
  const chunks = [content.subarray(0, middle), content.subarray(middle)].filter(({ length }) => length > 0);
  return Buffer.concat([
    ...chunks.flatMap((chunk) => [Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n')]),
    Buffer.from('0\r\n\r\n'),
  ]);
}
