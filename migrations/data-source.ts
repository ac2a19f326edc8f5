// What the TypeORM CLI opens: `DATABASE_URL=mysql://... npx typeorm migration:run -d dist/migrations/data-source.js`.
import { DataSource } from 'typeorm';
import { mailroomMigrations } from './index.js';

/** The database of `DATABASE_URL` with the migrations of mailroom. It is not connected yet. */
export default new DataSource({ type: 'mysql', url: databaseUrl(), migrations: mailroomMigrations() });

function databaseUrl(): string {
  const url = process.env.DATABASE_URL;
  if (url === undefined || url === '') {
    throw new Error('mailroom migrations: DATABASE_URL is not set. Example: mysql://root@127.0.0.1:3306/app');
  }
  return url;
}
