import type { CrowdListener } from '../../../src/delivery/crowds.js';
import { Crowds } from '../../../src/delivery/index.js';
import { gate } from '../../support/gate.js';

/** An order unit whose messages step aside by ids: each step ends where it was told to. */
function orderOf(left: number, headOf: (step: number) => string | null = () => '1') {
  const steps: { from: string; limit: number }[] = [];
  return {
    steps,
    stepAside: async (_open: string, from: string, limit = 500) => {
      steps.push({ from, limit });
      const moved = Math.min(left, limit);
      left -= moved;
      const last = String(Number(from) + moved);
      return { moved, last: moved > 0 ? last : null, head: headOf(steps.length), more: moved === limit };
    },
  };
}

function listener(given: Partial<CrowdListener>): CrowdListener {
  return { ended: () => undefined, putOff: fail, failed: fail, ...given };
}

const first = { moved: 500, last: '501', head: '1', more: true };

test('goes on where the last step ended, in larger steps while they are quick, until nobody is left', async () => {
  const order = orderOf(2_000);
  let ended = 0;
  const crowds = new Crowds(order, listener({ ended: () => ended++ }));
  crowds.followUnit('7', '2', first);
  expect(crowds.list()).toMatchObject([{ open: '7', from: '2' }]);
  await crowds.idle();
  expect(order.steps).toEqual([
    { from: '501', limit: 500 },
    { from: '1001', limit: 1_000 },
    { from: '2001', limit: 2_000 },
  ]);
  expect(crowds.list()).toEqual([]);
  expect(ended).toBe(1);
});

test('a small group is no crowd', () => {
  const crowds = new Crowds(orderOf(0), listener({ ended: fail }));
  crowds.followUnit('7', '2', { ...first, more: false });
  expect(crowds.list()).toEqual([]);
});

test('ends when another message is the head: it may be somebody’s turn', async () => {
  const order = orderOf(100_000, (step) => (step === 2 ? '2' : '1'));
  const crowds = new Crowds(order, listener({}));
  crowds.followUnit('7', '2', first);
  await crowds.idle();
  expect(order.steps).toHaveLength(2);
  expect(crowds.list()).toEqual([]);
});

test('a step that fails is reported, and the crowd is left to the readers', async () => {
  const errors: unknown[] = [];
  const order = { stepAside: () => Promise.reject(new Error('away')) };
  const crowds = new Crowds(order, listener({ failed: (error) => errors.push(error) }));
  crowds.followUnit('7', '2', first);
  await crowds.idle();
  expect(errors).toEqual([new Error('away')]);
  expect(crowds.list()).toEqual([]);
});

test('stopping waits for the step under way and begins no other', async () => {
  const order = orderOf(100_000);
  const held = gate();
  const slow = {
    stepAside: async (open: string, from: string, limit?: number) => {
      await held.opened;
      return order.stepAside(open, from, limit);
    },
  };
  const crowds = new Crowds(slow, listener({}));
  crowds.followUnit('7', '2', first);
  const stopped = crowds.stop();
  held.open();
  await stopped;
  expect(order.steps).toHaveLength(1);
  crowds.followUnit('8', '2', first);
  await crowds.idle();
  expect(order.steps).toHaveLength(1);
});

test('a type is put off until it is not most of what is due any more', async () => {
  const told: unknown[] = [];
  const crowds = new Crowds(orderOf(0), listener({ putOff: (what) => told.push(what) }));
  const counts = [500, 900, 700];
  const limits: number[] = [];
  const putOff = async (limit: number) => {
    limits.push(limit);
    return counts.shift() ?? 0;
  };
  crowds.followType({ lane: 0, source: 's', type: 't', reason: 'r' }, 249, putOff);
  expect(crowds.list()).toEqual([]);
  crowds.followType({ lane: 0, source: 's', type: 't', reason: 'r' }, 250, putOff);
  expect(crowds.list()).toEqual([{ kind: 'type', lane: 0, source: 's', type: 't' }]);
  await crowds.idle();
  expect(limits).toEqual([500, 1_000, 2_000]);
  expect(told).toEqual([500, 900, 700].map((count) => ({ source: 's', type: 't', count, reason: 'r' })));
});

test('at most 20 at a time', async () => {
  const crowds = new Crowds(orderOf(0), listener({}));
  for (let n = 1; n <= 25; n++) crowds.followUnit(String(n), '2', first);
  expect(crowds.list()).toHaveLength(20);
  await crowds.stop();
});

function fail(): never {
  throw new Error('not expected');
}
