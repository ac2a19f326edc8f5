import { BatchPace } from '../../../src/schedule/batch-pace.js';

test('batches shrink while they are slow or fail, grow back when they are quick, and rest twice their time', () => {
  const pace = new BatchPace(500);
  expect(pace.took(150)).toBe(300);
  expect(pace.limit).toBe(500);
  expect(pace.took(5_000)).toBe(2_000);
  expect(pace.limit).toBe(250);
  pace.failed();
  expect(pace.limit).toBe(125);
  for (let n = 0; n < 10; n++) pace.failed();
  expect(pace.limit).toBe(10);
  expect(pace.took(10)).toBe(20);
  expect(pace.limit).toBe(20);
  for (let n = 0; n < 10; n++) pace.took(10);
  expect(pace.limit).toBe(500);
});

test('a batch size below the smallest is kept', () => {
  const pace = new BatchPace(3);
  pace.failed();
  expect(pace.limit).toBe(3);
});
