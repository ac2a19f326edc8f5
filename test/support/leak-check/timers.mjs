import { promisify } from 'node:util';

// Too small: the list is cleaned all the time. Too large: finished timers and what they hold stay in memory.
const minimumBeforeCleaning = 1_000;

/**
 * Records each timer that code of the test's realm starts through `setTimeout` and `setInterval`, with the place.
 * `list()` names those that still run: `2 x setInterval at src/lease/watchdog.ts:40`. `end()` clears them.
 *
 * A timer that was unref'd lets the process end. It is listed all the same when code of `src/` started it: after a
 * shutdown nothing of ours may go on. Timers of libraries that are unref'd are theirs.
 */
export function trackTimers(global, checkout) {
  let records = [];
  let cleanAt = minimumBeforeCleaning;
  const running = () => {
    // `_destroyed` is the one mark of a timer that fired or was cleared, also when it was cleared by its number.
    records = records.filter(({ timer }) => !timer._destroyed);
    cleanAt = Math.max(minimumBeforeCleaning, records.length * 2);
    return records;
  };
  const leaking = () => running().filter(({ timer, stack }) => timer.hasRef() || stack.includes(`${checkout}/src/`));

  for (const name of ['setTimeout', 'setInterval']) {
    const original = global[name];
    const recorded = (...args) => {
      const timer = original(...args);
      records.push({ timer, name, stack: new Error().stack });
      if (records.length > cleanAt) running();
      return timer;
    };
    Object.defineProperty(recorded, promisify.custom, { get: () => original[promisify.custom] });
    global[name] = recorded;
  }

  return {
    list() {
      const places = leaking().map(({ name, stack }) => `${name} at ${placeOf(stack, checkout)}`);
      return [...new Set(places)].map((place) => `${places.filter((other) => other === place).length} x ${place}`);
    },
    end() {
      for (const { timer } of leaking()) clearTimeout(timer);
    },
  };
}

function placeOf(stack, checkout) {
  const frames = stack.split('\n').filter((line) => line.includes(checkout) && !line.includes('/leak-check/'));
  const frame = frames.find((line) => !line.includes('/node_modules/')) ?? frames[0] ?? 'an unknown place';
  return frame.trim().replace(/^at /, '').replaceAll('file://', '').replaceAll(`${checkout}/`, '');
}
