// Three projects, told apart by folder: `unit` needs no server, `integration` needs the servers of DATABASE_URL and
// REDIS_URL, `fault` also kills what it starts. Run with
// `node --experimental-vm-modules node_modules/jest/bin/jest.js -c test/jest.config.mjs [--selectProjects unit] [--testPathPatterns leases]`.
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { swcOptions } from './support/typescript/swc-options.mjs';

const checkout = dirname(dirname(fileURLToPath(import.meta.url)));

const project = (name, testTimeoutMs) => ({
  displayName: name,
  rootDir: checkout,
  roots: ['<rootDir>/src', '<rootDir>/migrations', '<rootDir>/test', '<rootDir>/scripts'],
  testMatch: [`<rootDir>/test/${name}/**/*.spec.ts`],
  testEnvironment: '<rootDir>/test/support/leak-check/environment.mjs',
  extensionsToTreatAsEsm: ['.ts'],
  transform: { '\\.ts$': ['@swc/jest', swcOptions] },
  // Sources import './x.js', as the built code needs it. The second entry keeps real .js files of packages reachable.
  moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': ['$1.ts', '$1.js'] },
  modulePathIgnorePatterns: ['<rootDir>/dist/'],
  globals: { testTimeoutMs },
  setupFilesAfterEnv: ['<rootDir>/test/support/test-timeout.mjs'],
});

export default {
  rootDir: checkout,
  // More workers make the timing tests of a small machine lie, and each brings its own database connections.
  maxWorkers: 2,
  // A test that leaves a handle open must be seen: there is no forceExit here, and none may be added.
  projects: [project('unit', 5_000), project('integration', 60_000), project('fault', 120_000)],
};
