// What the bench makes of its figures: medians, the order of the runs, targets, tables, and the page. No server.

import { standardWebhooks } from '../../../src/index.js';
import { median, milliseconds, rate, rotated } from '../../bench/harness/figures.js';
import { atLeast, atMost, type PartReport } from '../../bench/harness/part.js';
import { renderMarkdown, renderText } from '../../bench/harness/render.js';
import { recorded } from '../../bench/harness/run-part.js';
import { OrderPushes } from '../../bench/load/order-push.js';

test('a median is the value in the middle, whatever the order', () => {
  expect(median([9, 1, 5])).toBe(5);
  expect(median([4, 1, 3, 2])).toBe(2.5);
  expect(() => median([])).toThrow('median of no values');
});

test('each arm begins a round once', () => {
  const rounds = [0, 1, 2].map((round) => rotated(['a', 'b', 'c'], round));
  expect(rounds).toEqual([
    ['a', 'b', 'c'],
    ['b', 'c', 'a'],
    ['c', 'a', 'b'],
  ]);
});

test('figures are short', () => {
  expect([rate(12_345.6), rate(9.84)]).toEqual(['12,346', '9.8']);
  expect([milliseconds(1.234), milliseconds(12.34)]).toEqual(['1.23 ms', '12.3 ms']);
});

test('a target is met at its limit and missed beyond it', () => {
  expect(atLeast('speed', 0.85, 0.85)).toMatchObject({ wanted: '>= 0.85', measured: '0.85', met: true });
  expect(atLeast('speed', 0.85, 0.84)).toMatchObject({ met: false });
  expect(atMost('latency', 1.5, 1.5)).toMatchObject({ wanted: '<= 1.5', met: true });
  expect(atMost('latency', 1.5, 1.51)).toMatchObject({ met: false });
});

test('what was not measured counts as missed', () => {
  expect(atMost('latency', 1.5, null)).toMatchObject({ measured: null, met: false });
  expect(atMost('latency', 1.5, Number.NaN)).toMatchObject({ measured: null, met: false });
});

const report: PartReport = {
  tables: [
    {
      title: 'Speed',
      columns: ['', 'rate'],
      rows: [
        ['ours', '900'],
        ['theirs', '1,000'],
      ],
    },
  ],
  targets: [atLeast('ours / theirs', 0.85, 0.9), atLeast('another', 1, null)],
  verdicts: [{ name: 'nothing is lost', ok: false, detail: '1 lost' }],
  figures: [],
};

test('the terminal shows tables, then targets, then verdicts', () => {
  expect(renderText(report)).toBe(
    [
      'Speed',
      '           rate',
      '  ours      900',
      '  theirs  1,000',
      '',
      'Targets',
      '  target         wanted   measured',
      '  ours / theirs  >= 0.85  0.90          met',
      '  another        >= 1     NOT MEASURED  MISSED',
      '',
      'Correctness',
      '  what             verdict',
      '  nothing is lost  FAILED   1 lost',
    ].join('\n'),
  );
});

test('the page shows the same as Markdown', () => {
  expect(renderMarkdown(report)).toContain(
    ['**Speed**', '', '|  | rate |', '| --- | --: |', '| ours | 900 |', '| theirs | 1,000 |'].join('\n'),
  );
});

test('a second record takes the place of the first and leaves the rest alone', () => {
  const once = recorded('# Page\n', 'intake on mysql', 'old');
  const both = recorded(once, 'intake on mariadb', 'other');
  expect(recorded(both, 'intake on mysql', 'new')).toBe(both.replace('old', 'new'));
  expect(both).toMatch(
    /^# Page\n\n<!-- bench: intake on mysql -->\nold\n<!-- end of intake on mysql -->\n\n<!-- bench/,
  );
});

test('the pushes of the load are signed as a sender signs them', async () => {
  const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
  const pushes = new OrderPushes({ secret, prefix: 'run' });
  const { headers, body } = pushes.make(3);
  const verified = await standardWebhooks({ secrets: [secret] }).verify(
    { headers, rawBody: Buffer.from(body) },
    Date.now(),
  );
  expect(verified).toEqual({ valid: true });
  expect(JSON.parse(body)).toMatchObject({ eventId: pushes.eventId(3), type: 'order.paid' });
});
