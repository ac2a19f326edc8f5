import { createHmac } from 'node:crypto';
import {
  github,
  hmacSignature,
  type Secret,
  type SignatureVerifier,
  shopify,
  slack,
  standardWebhooks,
  stripe,
} from '../../../src/signature/index.js';

/** A push as a sender would build it. */
export interface Push {
  readonly headers: Record<string, string | string[] | undefined>;
  readonly rawBody: Buffer;
}

/**
 * One built-in scheme with a sender for it. The senders are written from the providers' documents and share no code with
 * the verifiers.
 */
export interface Scheme {
  readonly name: string;
  readonly secret: string;
  readonly otherSecret: string;
  /** The header with the signature. */
  readonly header: string;
  /** The header with the signed time, where it has one of its own. */
  readonly timestampHeader?: string;
  /** What the scheme counts time in; absent: it signs no time. */
  readonly unit?: 's' | 'ms';
  readonly make: (secrets: readonly Secret[], tolerance?: number | string) => SignatureVerifier;
  /** @param time the text to send and sign as the time */
  readonly sign: (secret: string, rawBody: Buffer, time: string) => Push;
}

export const nowMs = 1_614_265_330_250;

const mac = (algorithm: string, key: string | Buffer, ...parts: (string | Buffer)[]) =>
  createHmac(algorithm, key).update(Buffer.concat(parts.map((part) => Buffer.from(part as string))));

const standardKey = (secret: string) => Buffer.from(secret.replace('whsec_', ''), 'base64');

const standard = (prefix: 'webhook' | 'svix'): Scheme => ({
  name: prefix === 'webhook' ? 'standard-webhooks' : 'standard-webhooks as svix',
  secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  otherSecret: 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD',
  header: `${prefix}-signature`,
  timestampHeader: `${prefix}-timestamp`,
  unit: 's',
  make: (secrets, tolerance = '5m') => standardWebhooks({ secrets, tolerance, headerPrefix: prefix }),
  sign: (secret, rawBody, time) => ({
    headers: {
      [`${prefix}-id`]: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      [`${prefix}-timestamp`]: time,
      [`${prefix}-signature`]: `v1,${mac('sha256', standardKey(secret), `msg_p5jXN8AQM9LWM0D4loKWxJek.${time}.`, rawBody).digest('base64')}`,
    },
    rawBody,
  }),
});

const generic = (unit: 's' | 'ms'): Scheme => ({
  name: `hmac with a time in ${unit}`,
  secret: 'a-shared-secret-of-enough-bytes',
  otherSecret: 'another-secret-of-enough-bytes',
  header: 'x-signature',
  timestampHeader: 'x-timestamp',
  unit,
  make: (secrets, tolerance = '5m') =>
    hmacSignature({
      secrets,
      header: 'X-Signature',
      prefix: 'sha512=',
      algorithm: 'sha512',
      encoding: 'base64',
      timestamp: {
        header: 'X-Timestamp',
        tolerance,
        unit,
        payload: (timestamp, rawBody) => Buffer.concat([Buffer.from(`${timestamp}\n`), rawBody]),
      },
    }),
  sign: (secret, rawBody, time) => ({
    headers: {
      'x-timestamp': time,
      'x-signature': `sha512=${mac('sha512', secret, `${time}\n`, rawBody).digest('base64')}`,
    },
    rawBody,
  }),
});

export const schemes: readonly Scheme[] = [
  standard('webhook'),
  standard('svix'),
  {
    name: 'github',
    secret: "It's a Secret to Everybody",
    otherSecret: 'It was a Secret to Everybody',
    header: 'x-hub-signature-256',
    make: (secrets) => github({ secrets }),
    sign: (secret, rawBody) => ({
      headers: {
        'x-hub-signature-256': `sha256=${mac('sha256', secret, rawBody).digest('hex')}`,
        'x-github-delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958',
      },
      rawBody,
    }),
  },
  {
    name: 'stripe',
    secret: 'whsec_0f1e2d3c4b5a69788796a5b4c3d2e1f0',
    otherSecret: 'whsec_1f1e2d3c4b5a69788796a5b4c3d2e1f0',
    header: 'stripe-signature',
    unit: 's',
    make: (secrets, tolerance = '5m') => stripe({ secrets, tolerance }),
    sign: (secret, rawBody, time) => ({
      headers: { 'stripe-signature': `t=${time},v1=${mac('sha256', secret, `${time}.`, rawBody).digest('hex')}` },
      rawBody,
    }),
  },
  {
    name: 'slack',
    secret: '8f742231b10e8888abcd99yyyzzz85a5',
    otherSecret: '9f742231b10e8888abcd99yyyzzz85a5',
    header: 'x-slack-signature',
    timestampHeader: 'x-slack-request-timestamp',
    unit: 's',
    make: (secrets, tolerance = '5m') => slack({ secrets, tolerance }),
    sign: (secret, rawBody, time) => ({
      headers: {
        'x-slack-request-timestamp': time,
        'x-slack-signature': `v0=${mac('sha256', secret, `v0:${time}:`, rawBody).digest('hex')}`,
      },
      rawBody,
    }),
  },
  {
    name: 'shopify',
    secret: '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',
    otherSecret: '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',
    header: 'x-shopify-hmac-sha256',
    make: (secrets) => shopify({ secrets }),
    sign: (secret, rawBody) => ({
      headers: {
        'x-shopify-hmac-sha256': mac('sha256', secret, rawBody).digest('base64'),
        'x-shopify-webhook-id': 'b54557e4-bdd9-4b37-8a5f-bf7d70bcd043',
      },
      rawBody,
    }),
  },
  generic('s'),
  generic('ms'),
];

export const timedSchemes = schemes.filter((scheme) => scheme.unit !== undefined);

/** The headers that the scheme checks. GitHub and Shopify send an id that they do not sign. */
export function checkedHeaders(scheme: Scheme): readonly string[] {
  return Object.keys(signedPush(scheme).headers).filter((name) => !/github-delivery|shopify-webhook-id/.test(name));
}

/** A time as the scheme writes it. */
export function timeText(scheme: Scheme, ms: number): string {
  return String(scheme.unit === 'ms' ? ms : Math.floor(ms / 1000));
}

/** A genuine push of this scheme, signed now. */
export function signedPush(scheme: Scheme, rawBody: Buffer = Buffer.from('{"n":1}'), secret = scheme.secret): Push {
  return scheme.sign(secret, rawBody, timeText(scheme, nowMs));
}
