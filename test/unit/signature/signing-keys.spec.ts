/** The comparison: every key and every digest is looked at, whichever matches. No server. */
import { createHmac, createSecretKey } from 'node:crypto';
import { inspect } from 'node:util';
import { expect, it } from '@jest/globals';
import { SigningKeys } from '../../../src/signature/signing-keys.js';

const secrets = [1, 2, 3].map((n) => Buffer.alloc(32, n));
const keys = new SigningKeys(
  'sha256',
  secrets.map((secret) => createSecretKey(secret)),
);
const body = Buffer.from('signed');
const digestUnder = (secret: Buffer | undefined) =>
  createHmac('sha256', secret ?? '')
    .update(body)
    .digest();
const wrong = Buffer.alloc(32, 0xee);

/** A list that counts how often an item of it was taken. */
function counted<T>(items: readonly T[]) {
  const taken = { count: 0 };
  const list: Iterable<T> = {
    *[Symbol.iterator]() {
      for (const item of items) {
        taken.count += 1;
        yield item;
      }
    },
  };
  return { taken, list };
}

it.each([0, 1, 2])('tries all keys when key %p matches', (index) => {
  const signed = counted([body]);
  expect(keys.matches(signed.list, [digestUnder(secrets[index])])).toBe(true);
  expect(signed.taken.count).toBe(secrets.length);
});

it('tries all keys when none matches', () => {
  const signed = counted([body]);
  expect(keys.matches(signed.list, [wrong])).toBe(false);
  expect(signed.taken.count).toBe(secrets.length);
});

it.each([0, 1, 2])('looks at every digest with every key when digest %p matches', (index) => {
  const digests = [wrong, wrong, wrong];
  digests[index] = digestUnder(secrets[0]);
  const presented = counted(digests);
  expect(keys.matches([body], presented.list)).toBe(true);
  expect(presented.taken.count).toBe(secrets.length * digests.length);
});

it('never matches a digest of another length, and does not throw', () => {
  const digest = digestUnder(secrets[0]);
  for (const presented of [
    Buffer.alloc(0),
    digest.subarray(0, 31),
    Buffer.concat([digest, Buffer.from([0])]),
    Buffer.alloc(64),
  ]) {
    expect(keys.matches([body], [presented])).toBe(false);
  }
  expect(keys.matches([body], [])).toBe(false);
});

it('signs the parts of a push as one text', () => {
  expect(keys.matches([body.subarray(0, 3), body.subarray(3)], [digestUnder(secrets[1])])).toBe(true);
});

it('shows no key', () => {
  expect(inspect(keys, { depth: Infinity, showHidden: true })).not.toMatch(/0202|02 02|AgIC/);
  expect(JSON.stringify(keys)).toBe('{}');
});
