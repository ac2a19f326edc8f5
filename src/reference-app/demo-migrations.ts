import { CreateDemoContract1764547500000 } from './demo-contract.migration.js';
import { CreateDemoOutbox1764547600000 } from './demo-outbox.migration.js';
import { CreateDemoProfile1764547400000 } from './demo-profile.migration.js';
import { CreateDemoTables1764547300000 } from './demo-tables.migration.js';

/** The migrations of the reference application's own tables, in order. Those that landed are not edited. */
export const demoMigrations = [
  CreateDemoTables1764547300000,
  CreateDemoProfile1764547400000,
  CreateDemoContract1764547500000,
  CreateDemoOutbox1764547600000,
] as const;
