import { type Command, InvalidArgumentError, Option } from 'commander';
import type { ReplaySelection } from '../replay.service.js';

/** What the flags below are parsed into. */
export type SelectionFlags = Omit<ReplaySelection, 'ids'> & { readonly id?: readonly string[] };

const names = [
  'box',
  'source',
  'type',
  'topic',
  'receiver',
  'subject',
  'key',
  'status',
  'receivedFrom',
  'receivedTo',
  'failedFrom',
  'failedTo',
  'errorKind',
  'errorContains',
  'attemptsAtLeast',
  'all',
] as const;

/** The flags that choose messages. All that are given must hold. */
export function addSelectionFlags(command: Command): Command {
  return command
    .addOption(new Option('--box <box>', 'which box').choices(['inbox', 'outbox']).default('inbox'))
    .option('--id <id...>', 'these messages')
    .option('--source <name>', 'inbox: who sent it')
    .option('--type <type>', 'inbox: what it is')
    .option('--topic <topic>', 'outbox: what it is')
    .option('--receiver <receiver>', 'outbox: whom it is for')
    .option('--subject <subject>', 'outbox: what it is about')
    .option('--key <key>', 'entity key, or message key')
    .option('--status <status>', 'failed (inbox), dead (outbox); success or sent only when named')
    .option('--received-from <instant>', 'received from then on, such as 2026-01-31T12:00:00Z')
    .option('--received-to <instant>', 'received before')
    .option('--failed-from <instant>', 'ended from then on')
    .option('--failed-to <instant>', 'ended before')
    .option('--error-kind <kind>', 'kind of error')
    .option('--error-contains <text>', 'text in the error')
    .option('--attempts-at-least <count>', 'attempts', wholeNumber)
    .option('--all', 'every message of the status');
}

export function selectionOf(flags: SelectionFlags): ReplaySelection {
  const given = names.flatMap((name) => (flags[name] === undefined ? [] : [[name, flags[name]]]));
  return { ...Object.fromEntries(given), ...(flags.id ? { ids: flags.id } : {}) };
}

/** @throws InvalidArgumentError, which commander turns into a message that names the option */
export function wholeNumber(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('write a whole number');
}

export function positiveNumber(text: string): number {
  const value = Number(text);
  if (value > 0 && Number.isFinite(value)) return value;
  throw new InvalidArgumentError('write a number above 0');
}
