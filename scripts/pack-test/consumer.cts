// The same package as CommonJS code gets it: `import` here becomes require(), which Node.js 20.19 and later allow.
import { InboxHandler, InboxModule } from 'nestjs-mailroom';
import { mailroomMigrations } from 'nestjs-mailroom/migrations';
import { drainInbox } from 'nestjs-mailroom/testing';

export const exported: readonly unknown[] = [InboxHandler, InboxModule, mailroomMigrations(), drainInbox];
