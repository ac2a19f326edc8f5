export { type Duration, longestTimerMs, parseDuration } from './duration.js';
export * from './option-types.js';
export { parseOptions } from './parse-options.js';
