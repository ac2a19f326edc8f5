// What the errors of the two servers mean here. No server.
import { isConnectionError, isReadOnly } from '../../../src/database/index.js';

test.each([1290, 1792, 1836])('%i says that the server is read-only, bare and wrapped by TypeORM', (errno) => {
  expect(isReadOnly(Object.assign(new Error(), { errno }))).toBe(true);
  expect(isReadOnly({ driverError: { errno } })).toBe(true);
});

test.each([1040, 1203, 1226, 1927, 3169, 4031])('%i says that the connection is gone or never came up', (errno) => {
  expect(isConnectionError({ errno })).toBe(true);
  expect(isReadOnly({ errno })).toBe(false);
});
