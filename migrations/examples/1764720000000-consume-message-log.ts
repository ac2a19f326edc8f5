// Phase 2, for a later release: when no instance of the old code is left. Rows that are inserted from then on without a status
// are pending, and are consumed.
import { adoption } from './1764633600000-adopt-message-log.js';

export const ConsumeMessageLog1764720000000 = adoption.phase2;
