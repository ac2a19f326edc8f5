// jest ignores `testTimeout` of a project, so each project hands its own to this file through `globals`.
import { jest } from '@jest/globals';

jest.setTimeout(globalThis.testTimeoutMs);
