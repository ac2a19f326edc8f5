// Limits on bodies against the server's own limit on a packet.

import { resolveInboxOptions } from '../../../src/inbox/inbox-options.js';
import { packetProblems, statementBytes } from '../../../src/inbox/packet-check.js';

const mebibyte = 1_048_576;
const options = (maxBodyBytes: number, sourceBytes?: number) =>
  resolveInboxOptions({
    intake: { maxBodyBytes },
    sources: { raw: { type: 't', ...(sourceBytes === undefined ? {} : { maxBodyBytes: sourceBytes }) } },
  });

test('a limit that the server undercuts is told with both values and what to change', () => {
  const [problem, ...more] = packetProblems(options(5 * mebibyte), mebibyte);
  expect(more).toEqual([]);
  expect(problem).toContain('inbox.intake.maxBodyBytes is 5242880');
  expect(problem).toContain('max_allowed_packet is 1048576');
  expect(problem).toContain(
    'set max_allowed_packet to 5263360 or more, or inbox.intake.maxBodyBytes to 1028096 or less',
  );
});

test('each source is compared, and what fits is not told', () => {
  expect(packetProblems(options(mebibyte), 16 * mebibyte)).toEqual([]);
  expect(packetProblems(options(1_000, 64 * mebibyte), 16 * mebibyte)).toEqual([
    expect.stringContaining('inbox.sources.raw.maxBodyBytes is 67108864'),
  ]);
  expect(packetProblems(options(mebibyte), mebibyte)).toHaveLength(1);
});

test('a batch stays below the limit, and holds one row at least', () => {
  expect(statementBytes(mebibyte, null)).toBe(mebibyte);
  expect(statementBytes(mebibyte, 16 * mebibyte)).toBe(mebibyte);
  expect(statementBytes(mebibyte, mebibyte)).toBeLessThan(mebibyte);
  expect(statementBytes(mebibyte, 65_536)).toBe(1);
});
