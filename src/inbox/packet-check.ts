import type { ResolvedInboxOptions } from './inbox-options.js';
import type { MessageDraft } from './message-draft.js';

/** Column lengths and what the protocol adds to a row. */
const rowOverhead = 4_096;
/** Stored headers of a push with the usual ones; each is at most 1,000 characters. */
const usualHeaders = 16_384;
/** Rows of a batch beside their bodies and headers. */
const batchOverhead = 262_144;

/** Bytes of the packet that carries the row. `asText`: through a connection of the application, which sends bytes as hex. */
export function packetBytes({ body, headers }: MessageDraft, asText: boolean): number {
  const bytes = body.length + Buffer.byteLength(headers ?? '') + (asText ? 0 : rowOverhead);
  return asText ? 2 * bytes + 2 * rowOverhead : bytes;
}

/** Bodies and headers that one statement may carry, at most `most`. */
export function statementBytes(most: number, packetLimit: number | null): number {
  return packetLimit === null ? most : Math.max(1, Math.min(most, packetLimit - batchOverhead));
}

/** What to tell at the start: limits on bodies that the server's own limit undercuts. */
export function packetProblems(
  { intake, sources }: Pick<ResolvedInboxOptions, 'intake' | 'sources'>,
  packetLimit: number,
): string[] {
  const limits = [
    ['inbox.intake.maxBodyBytes', intake.maxBodyBytes] as const,
    ...Object.entries(sources).map(
      ([name, source]) => [`inbox.sources.${name}.maxBodyBytes`, source.maxBodyBytes] as const,
    ),
  ];
  const taken = Math.max(0, packetLimit - rowOverhead - usualHeaders);
  return limits.flatMap(([path, bytes]) =>
    bytes === undefined || bytes <= taken
      ? []
      : [
          `${path} is ${bytes}, but the server's max_allowed_packet is ${packetLimit}: bodies above about ${taken} bytes are answered 413; set max_allowed_packet to ${bytes + rowOverhead + usualHeaders} or more, or ${path} to ${taken} or less`,
        ],
  );
}
