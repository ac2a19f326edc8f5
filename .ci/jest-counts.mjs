// Prints "<passed> <failed> <skipped>" for a result file of `jest --json --outputFile`, or "0 0 0" when there is none.
// A file that failed without a failed test (it could not be loaded, or it left something open) counts as one failure.
import { existsSync, readFileSync } from 'node:fs';

const path = process.argv[2];
const results = existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : null;

const failedFiles = (results?.testResults ?? []).filter(
  ({ status, assertionResults }) => status === 'failed' && !assertionResults.some((test) => test.status === 'failed'),
);
const passed = results?.numPassedTests ?? 0;
const failed = (results?.numFailedTests ?? 0) + failedFiles.length;
const skipped = (results?.numPendingTests ?? 0) + (results?.numTodoTests ?? 0);
console.log(passed, failed, skipped);
