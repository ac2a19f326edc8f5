/**
 * Loops with a fixed pause after each pass (not an interval, so passes never overlap), visible in the application's
 * SchedulerRegistry. A loop never dies: what a pass throws is reported, a pass that hangs is left behind.
 *
 * Work in the background that goes batch by batch finds its size and its rests with `BatchPace`.
 *
 * `StartUp` collects what the modules find when the application starts, and tells it in one line.
 *
 * The modules end together: each joins the application's one `Shutdown`, which takes all of them through its steps.
 */
export { BatchPace } from './batch-pace.js';
export { FixedDelayLoop, type FixedDelayLoopOptions } from './fixed-delay-loop.js';
export { MailroomLifecycleModule } from './lifecycle.module.js';
export { isLate, Shutdown, type ShutdownPart } from './shutdown.js';
export { StartUp } from './start-up.js';
