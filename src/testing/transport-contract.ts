import type { OutboxMessage, SendResult, Transport } from '../outbox/index.js';
import { sampleMessage } from './sample-message.js';

/** A transport under test, and what its other side has seen. */
export interface ContractSubject {
  readonly transport: Transport;
  /** Whom the messages are for, where the transport needs one. It is reachable. */
  readonly receiver?: string;
  /** Ids that have arrived at the other side so far, repetitions included. */
  arrived(): readonly string[] | Promise<readonly string[]>;
  /** Takes the other side away: nothing that is sent now can arrive. Absent: that cannot be done here. */
  cutOff?(): void | Promise<void>;
  /** Closes what the test opened; the transport is closed already. */
  close(): void | Promise<void>;
}

/** One promise of the contract, to be run under its name. */
export interface ContractCase {
  readonly name: string;
  run(): Promise<void>;
}

/** How long the other side may take to show a message, and a send to settle after it was given up. */
const patienceMs = 10_000;

/**
 * What the relay relies on, as cases for any test runner. Each case opens a subject of its own.
 * @example
 * for (const { name, run } of transportContract(openMyTransport)) test(name, run);
 */
export function transportContract(open: () => ContractSubject | Promise<ContractSubject>): ContractCase[] {
  const withSubject = (name: string, body: (subject: ContractSubject) => Promise<void>): ContractCase => ({
    name,
    async run() {
      const subject = await open();
      try {
        await subject.transport.open?.({
          sendTimeoutMs: patienceMs,
          database: 'contract',
          wakeReceiver: async () => undefined,
        });
        await body(subject);
      } finally {
        await subject.transport.close?.();
        await subject.close();
      }
    },
  });
  return [
    withSubject('has a name, and a batch size of at least 1 if any', async ({ transport }) => {
      check(typeof transport.name === 'string' && transport.name !== '', 'name is empty');
      const { batchSize = 1 } = transport;
      check(Number.isInteger(batchSize) && batchSize >= 1, `batchSize is ${batchSize}`);
    }),
    withSubject('one message is sent, and has arrived', async (subject) => {
      const [message] = messagesOf(1, subject);
      const results = await send(subject.transport, [message]);
      check(statuses(results) === 'sent', `the result is ${statuses(results)}`);
      await arrives(subject, [message]);
    }),
    withSubject('a full batch has one result for each message, and each has arrived', async (subject) => {
      const messages = messagesOf(Math.min(50, subject.transport.batchSize ?? 1), subject);
      const results = await send(subject.transport, messages);
      check(results.length === messages.length, `${results.length} results for ${messages.length} messages`);
      check(
        results.every(({ status }) => status === 'sent'),
        `the results are ${statuses(results)}`,
      );
      await arrives(subject, messages);
    }),
    withSubject('sends at the same time do not mix up', async (subject) => {
      const messages = messagesOf(20, subject);
      const all = await Promise.all(messages.map((message) => send(subject.transport, [message])));
      check(
        all.every((results) => statuses(results) === 'sent'),
        `the results are ${all.map(statuses)}`,
      );
      await arrives(subject, messages);
    }),
    withSubject('a message that is sent again arrives again under the same id, or once', async (subject) => {
      const [message] = messagesOf(1, subject);
      await send(subject.transport, [message]);
      const results = await send(subject.transport, [message]);
      check(statuses(results) === 'sent', `the second result is ${statuses(results)}`);
      await arrives(subject, [message]);
    }),
    withSubject('text beyond ASCII, no key, long payloads', async (subject) => {
      const to = receiverOf(subject);
      const messages = [
        sampleMessage({ id: newId(), payload: { text: '🚚 ß \u0000' }, key: '🚚', ...to }),
        sampleMessage({ id: newId(), payload: 'x'.repeat(200_000), key: null, ...to }),
        sampleMessage({ id: newId(), payload: null, ...to }),
      ];
      for (const message of messages) check(statuses(await send(subject.transport, [message])) === 'sent', 'not sent');
      await arrives(subject, messages);
    }),
    withSubject('while the other side is away nothing counts as sent, and the send settles', async (subject) => {
      if (!subject.cutOff) return;
      await send(subject.transport, messagesOf(1, subject));
      await subject.cutOff();
      const results = await send(subject.transport, messagesOf(1, subject)).catch(() => null);
      check(results === null || !results.some(({ status }) => status === 'sent'), 'it counts as sent');
    }),
  ];
}

/** Settles when the transport does, and at the latest a while after its signal was aborted, as the relay does it. */
async function send(transport: Transport, messages: readonly OutboxMessage[]): Promise<readonly SendResult[]> {
  const abort = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => {
      abort.abort(new Error('given up'));
      reject(new Error(`the transport did not answer within ${patienceMs} ms`));
    }, patienceMs);
  });
  try {
    return await Promise.race([transport.send(messages, { signal: abort.signal }), late]);
  } finally {
    clearTimeout(timer);
  }
}

async function arrives({ arrived }: ContractSubject, messages: readonly OutboxMessage[]): Promise<void> {
  const until = performance.now() + patienceMs;
  for (;;) {
    const ids = new Set(await arrived());
    const missing = messages.filter(({ id }) => !ids.has(id));
    if (missing.length === 0) return;
    check(performance.now() < until, `${missing.length} of ${messages.length} messages never arrived`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

let count = 0;
function newId(): string {
  return `contract-${process.pid}-${Date.now()}-${++count}`;
}

function receiverOf({ receiver }: ContractSubject): { readonly receiver?: string } {
  return receiver === undefined ? {} : { receiver };
}

function messagesOf(number: number, subject: ContractSubject): [OutboxMessage, ...OutboxMessage[]] {
  const one = () => sampleMessage({ id: newId(), payload: { n: count }, ...receiverOf(subject) });
  return [one(), ...Array.from({ length: number - 1 }, one)];
}

function statuses(results: readonly SendResult[]): string {
  return results.map(({ status }) => status).join(', ');
}

function check(holds: boolean, problem: string): asserts holds {
  if (!holds) throw new Error(`transport contract: ${problem}`);
}
