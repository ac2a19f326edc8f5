type Schema = Readonly<Record<string, unknown>>;

/** What OpenAPI says about one method of the controller. */
export interface RouteDescription {
  readonly summary: string;
  /** What the `id` in the path is. */
  readonly id?: string;
  readonly query?: Readonly<Record<string, Schema>>;
  readonly body?: Schema;
  /** Default 200. */
  readonly status?: number;
  readonly answer: Schema;
  /** Further refusals, beside those of the guard. */
  readonly refusals?: Readonly<Record<number, string>>;
}

const text = { type: 'string' };
const textOrNull = { type: 'string', nullable: true };
const whole = { type: 'integer', minimum: 0 };
const flag = { type: 'boolean' };
const box = { type: 'string', enum: ['inbox', 'outbox'], default: 'inbox' };
const id = { type: 'string', pattern: '^[1-9][0-9]{0,19}$' };
const instant = { type: 'string', description: 'UTC, YYYY-MM-DD hh:mm:ss.mmm', nullable: true };
const since = { type: 'string', description: 'ISO 8601, such as 2026-01-31T12:00:00Z' };

const listOf = (items: Schema): Schema => ({ type: 'array', items });
const object = (
  properties: Readonly<Record<string, Schema>>,
  required: readonly string[] = Object.keys(properties),
) => ({
  type: 'object',
  properties,
  required,
});

const filters = {
  box,
  source: { ...text, description: 'inbox' },
  type: { ...text, description: 'inbox' },
  topic: { ...text, description: 'outbox' },
  receiver: { ...text, description: 'outbox' },
  subject: { ...text, description: 'outbox' },
  key: { ...text, description: 'entity key, or message key' },
  status: { ...text, description: 'failed (inbox) or dead (outbox) by default; success and sent only when named' },
  receivedFrom: since,
  receivedTo: since,
  failedFrom: since,
  failedTo: since,
  errorKind: text,
  errorContains: text,
  attemptsAtLeast: whole,
};
const selection = object(
  {
    ...filters,
    ids: { ...listOf(id), maxItems: 10_000 },
    all: { ...flag, description: 'every message of the status' },
  },
  [],
);
const line = {
  id,
  source: text,
  type: text,
  status: text,
  attempts: whole,
  replays: whole,
  errorKind: textOrNull,
  errorMessage: textOrNull,
  receivedAt: instant,
  finishedAt: instant,
};
const earlier = object({
  messageId: id,
  at: instant,
  reason: textOrNull,
  runId: textOrNull,
  attempts: whole,
  errorKind: textOrNull,
  errorMessage: textOrNull,
});
const message = object({
  ...line,
  key: textOrNull,
  replayOf: textOrNull,
  headers: { type: 'object', additionalProperties: text },
  contentType: textOrNull,
  bodyBytes: whole,
  body: { ...text, description: 'redacted, at most 64 KiB' },
  nextAttemptAt: instant,
  history: listOf(earlier),
});
const run = object({
  id,
  box,
  action: { type: 'string', enum: ['replay', 'discard', 'edit'] },
  state: { type: 'string', enum: ['pending', 'running', 'done', 'cancelled'] },
  actor: text,
  reason: text,
  selection: { ...text, description: 'JSON' },
  ratePerSecond: { type: 'number' },
  keepOrder: flag,
  selected: whole,
  requeued: whole,
  discarded: whole,
  skipped: whole,
  refused: whole,
  createdAt: instant,
  startedAt: instant,
  finishedAt: instant,
});
const item = object({
  messageId: id,
  outcome: { type: 'string', enum: ['requeued', 'discarded', 'skipped', 'refused'], nullable: true },
  detail: textOrNull,
  at: instant,
});
const group = object({ type: text, errorKind: textOrNull, count: whole, example: id });
const preview = object({ count: whole, more: flag, groups: listOf(group), oldest: instant, newest: instant });
const reason = { type: 'string', minLength: 1, maxLength: 500 };
const limit = { schema: { type: 'integer', minimum: 1, maximum: 200 } };
const after = { schema: id, description: 'what follows this id' };
const bad = { 400: 'a filter or a value cannot be meant' };
const missing = { 404: 'there is none of this id' };

/** By the name of the controller's method. */
export const descriptions: Readonly<Record<string, RouteDescription>> = {
  messages: {
    summary: 'Messages that failed, or that the filters name, in order of their ids, without bodies',
    query: {
      ...Object.fromEntries(Object.entries(filters).map(([name, schema]) => [name, { schema }])),
      ids: { schema: text, description: 'ids with commas between them' },
      after,
      limit,
    },
    answer: listOf(object(line)),
    refusals: bad,
  },
  message: {
    summary: 'One message: its redacted body, headers and earlier lives',
    id: 'of a message',
    query: { box: { schema: box } },
    answer: message,
    refusals: { ...bad, ...missing },
  },
  edit: {
    summary: 'Puts a new message with another body in the place of one that ended',
    id: 'of a message',
    body: object({ body: { ...text, maxLength: 1_048_576 }, reason, box }, ['body', 'reason']),
    status: 201,
    answer: object({ runId: id, messageId: id }),
    refusals: { ...bad, ...missing, 403: 'edits are off', 409: 'it has not ended, or another run has it' },
  },
  preview: {
    summary: 'What a selection means: count, groups with an example each, oldest and newest',
    body: selection,
    answer: preview,
    refusals: bad,
  },
  start: {
    summary: 'Starts a run: the messages of the selection are run again, or discarded',
    body: object(
      {
        selection,
        reason,
        action: { type: 'string', enum: ['replay', 'discard'], default: 'replay' },
        ratePerSecond: { type: 'number', minimum: 0.01, maximum: 10_000 },
        keepOrder: flag,
      },
      ['selection', 'reason'],
    ),
    status: 202,
    answer: run,
    refusals: { ...bad, 409: 'another run has some of the messages' },
  },
  runs: {
    summary: 'Runs, the newest first',
    query: { box: { schema: box }, before: { schema: id, description: 'runs before this id' }, limit },
    answer: listOf(run),
    refusals: bad,
  },
  run: { summary: 'One run', id: 'of a run', answer: run, refusals: { ...bad, ...missing } },
  items: {
    summary: 'What became of the messages of a run, in order of their ids',
    id: 'of a run',
    query: { after, limit },
    answer: listOf(item),
    refusals: bad,
  },
  cancel: {
    summary: 'Ends a run; what it did so far stays',
    id: 'of a run',
    answer: object({ cancelled: flag }),
    refusals: bad,
  },
  resume: {
    summary: 'A cancelled run goes on with what it had not done',
    id: 'of a run',
    answer: object({ resumed: flag }),
    refusals: { ...bad, 409: 'another run has some of the messages' },
  },
};
