import { CreateDemoProfile1764547400000 } from './demo-profile.migration.js';
import { CreateDemoTables1764547300000 } from './demo-tables.migration.js';

/** The migrations of the reference application's own tables, in order. Those that landed are not edited. */
export const demoMigrations = [CreateDemoTables1764547300000, CreateDemoProfile1764547400000] as const;
