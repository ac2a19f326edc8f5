import { z } from 'zod';
import { count, type Duration, duration, flag, fn } from '../config/index.js';
import type { SignatureVerifier } from '../signature/index.js';
import { type AdmissionLimits, limitSchemas } from './admission-options.js';
import type { Push } from './push.js';
import type { PushResponse, Receipt } from './receipt.js';

/** A value from which a key is made. A number must be a whole one up to 2^53, since others have lost digits already. */
export type KeyValue = string | number | bigint | Buffer;

// biome-ignore lint/suspicious/noExplicitAny: an item has whatever shape `split` gives it
type Item = any;

/** Messages that overtake each other on their way are put in order again, as far as they come close to each other. */
export interface ReorderOptions {
  /**
   * What `sequence` gives: 'sequence', any whole number, or 'time', milliseconds since 1970. With 'time' a push whose
   * value is not between the years 2000 and 2100 is answered 400: seconds or microseconds among them would never sort.
   */
  readonly by: 'sequence' | 'time';
  /** Only messages of these types wait and are put in order; 1 to 200. Those without a sequence are left out. */
  readonly types: readonly string[];
  /**
   * How long each of them waits for those that should have come before it. At most 10m. Default '5s'. Every message of
   * these types is handled that much later.
   */
  readonly window?: Duration;
}

/** One sender. Functions get the push and, with `split`, one item of it; they run for every push and must not wait. */
export interface SourceOptions extends AdmissionLimits {
  /** Mounts `POST /<path>`, exactly as written: a global prefix does not apply. Default: none, call `receive()` yourself. */
  readonly path?: string;
  /** Checks the signature over the raw bytes. Default: none; then protect the path in another way. */
  readonly verify?: SignatureVerifier;
  /**
   * One push carries many messages (1 to 500): stored in one transaction, all or nothing, duplicates found per item, and
   * the sender is answered with a list of receipts. Null: this push is one message, stored with the bytes as they came.
   */
  readonly split?: (push: Push) => readonly Item[] | null;
  /** Picks the handler: text of 1 to 128 printable ASCII characters, fixed or from the push. */
  readonly type: string | ((push: Push, item: Item) => string);
  /**
   * What makes two pushes the same message. Absent or null: never the same. undefined, '' or a throw: the push is
   * answered 400, since a shared key would swallow messages. More than 255 bytes are hashed.
   */
  readonly dedupKey?: (push: Push, item: Item) => KeyValue | null | undefined;
  /**
   * With `inbox.mode: 'competing'` and without dedupKey: says that copies of a push may be handled twice, also at the same
   * time. Default false: such a source is refused.
   */
  readonly allowDuplicates?: boolean;
  /** Messages of the same entity are handled in order. Null or absent: no order to keep. */
  readonly entityKey?: (push: Push, item: Item) => KeyValue | null | undefined;
  /** The sender's own position or time of the message within its entity: a whole number. */
  readonly sequence?: (push: Push, item: Item) => number | bigint | null | undefined;
  /**
   * Hands messages of some types over in order of their sequence instead of their arrival. Needs `sequence`, `entityKey`
   * and order 'block'. Default: none, the order of arrival.
   */
  readonly reorder?: ReorderOptions;
  /** A light check in memory. False: answered like a success and not stored, counted as ignored. */
  readonly accept?: (push: Push) => boolean;
  /** What the sender is answered for its receipt (an array with `split`). Default 200 with the receipt as JSON. */
  readonly respond?: (receipt: Receipt | readonly Receipt[]) => PushResponse;
  /**
   * Takes gzip bodies on the mounted path, which are stored unpacked; says what their signature is over: the 'plain' bytes,
   * or those on the 'wire'. Default: none, compressed bodies are answered 415.
   */
  readonly gzip?: 'plain' | 'wire';
  /** Overrides `intake.maxBodyBytes`. */
  readonly maxBodyBytes?: number;
  /** Further request headers to store, lower case. Never name one that carries a secret. Default: content-type, trace and request ids. */
  readonly storeHeaders?: readonly string[];
  /** 'block': messages of an entity wait for an older one that waits for its retry. 'skip': they pass it. Default 'block'. */
  readonly order?: 'block' | 'skip';
  /** What the failure of a message means for its entity: 'continue' with the next one, or 'park' until a person decides. Default 'continue'. */
  readonly onFailure?: 'continue' | 'park';
}

const typePattern = /^[\x21-\x7e]{1,128}$/;

export const sourceSchema = z
  .strictObject({
    path: z
      .string({ error: "write a path such as 'webhooks/orders'" })
      .transform((path) => `/${path.replace(/^\/+|\/+$/g, '')}`)
      .refine(
        (path) => /^(\/(?!\.{1,2}(\/|$))[A-Za-z0-9._~-]+)+$/.test(path),
        "write a fixed path such as 'webhooks/orders', without parameters",
      )
      .optional(),
    verify: z
      .custom<SignatureVerifier>((value) => typeof (value as { verify?: unknown } | null)?.verify === 'function', {
        error: 'write a verifier such as standardWebhooks({ secrets: [...] })',
      })
      .optional(),
    split: fn<NonNullable<SourceOptions['split']>>('the items of a push').optional(),
    type: z.union(
      [z.string().regex(typePattern), fn<Exclude<SourceOptions['type'], string>>('the type of a message')],
      {
        error: 'write a fixed type (1 to 128 printable ASCII characters) or a function of the push',
      },
    ),
    dedupKey: fn<NonNullable<SourceOptions['dedupKey']>>('the dedup key of a message').optional(),
    allowDuplicates: flag.default(false),
    entityKey: fn<NonNullable<SourceOptions['entityKey']>>('the entity key of a message').optional(),
    sequence: fn<NonNullable<SourceOptions['sequence']>>('the position of a message in its entity').optional(),
    reorder: z
      .strictObject({
        by: z.enum(['sequence', 'time'], { error: "write 'sequence' or 'time'" }),
        types: z
          .array(z.string().regex(typePattern, 'write types of 1 to 128 printable ASCII characters'), {
            error: "write a list of types such as ['order.paid']",
          })
          .min(1, 'name at least one type, or leave reorder out')
          .max(200, 'name at most 200 types')
          .transform((types): ReadonlySet<string> => new Set(types)),
        window: duration({ min: 1, max: 600_000 }).default(5_000),
      })
      .optional(),
    accept: fn<NonNullable<SourceOptions['accept']>>('true to store the push').optional(),
    respond: fn<NonNullable<SourceOptions['respond']>>('the answer for a receipt').optional(),
    maxBodyBytes: count(0, 1_073_741_824).optional(),
    gzip: z.enum(['plain', 'wire'], { error: "write 'plain' or 'wire'" }).optional(),
    maxInFlight: limitSchemas.maxInFlight,
    ratePerSecond: limitSchemas.ratePerSecond,
    rateBurst: limitSchemas.rateBurst,
    maxBacklog: limitSchemas.maxBacklog,
    maxBacklogAge: limitSchemas.maxBacklogAge,
    storeHeaders: z
      .array(z.string().regex(/^[a-z0-9-]{1,64}$/, 'write lower-case header names'))
      .max(50)
      .optional(),
    order: z.enum(['block', 'skip'], { error: "write 'block' or 'skip'" }).default('block'),
    onFailure: z.enum(['continue', 'park'], { error: "write 'continue' or 'park'" }).default('continue'),
  })
  .refine((source) => !(source.order === 'skip' && source.onFailure === 'park'), {
    path: ['onFailure'],
    error:
      "'park' keeps an entity closed, but with order 'skip' nothing waits: use order 'block', or onFailure 'continue'",
  })
  .refine((source) => source.sequence === undefined || source.entityKey !== undefined, {
    path: ['sequence'],
    error: 'a position counts within an entity: give entityKey too',
  })
  .refine((source) => source.reorder === undefined || source.sequence !== undefined, {
    path: ['reorder'],
    error: 'messages are put in order by their sequence: give sequence and entityKey too',
  })
  .refine((source) => source.reorder === undefined || source.order === 'block', {
    path: ['reorder'],
    error: "with order 'skip' messages pass each other anyway: use order 'block', or leave reorder out",
  });

export type ResolvedSource = z.output<typeof sourceSchema>;
