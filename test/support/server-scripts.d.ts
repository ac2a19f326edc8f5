// The types of what tests use of scripts/servers/, which is plain JavaScript so that it runs before `npm install`.

declare module '*/servers/installed-program.mjs' {
  export interface InstalledDatabase {
    readonly kind: 'mysql' | 'mariadb';
    readonly version: string;
    readonly program: string;
  }
  export function findDatabase(wanted: 'mysql' | 'mariadb' | 'any'): InstalledDatabase | null;
  export function findRedis(): string | null;
}

declare module '*/servers/private-database.mjs' {
  import type { InstalledDatabase } from '*/servers/installed-program.mjs';
  export function ownFolders(folder: string): string[];
  export function startPrivateDatabase(
    server: InstalledDatabase,
  ): Promise<{ readonly version: string; readonly address: string; readonly url: string; readonly folder: string }>;
}

declare module '*/servers/private-redis.mjs' {
  export function startPrivateRedis(
    program: string,
    choosePort?: () => Promise<number>,
  ): Promise<{ readonly address: string; readonly url: string; readonly folder: string }>;
}

declare module '*/servers/private-folder.mjs' {
  export function removeFolder(folder: string): void;
}

declare module '*/servers/private-process.mjs' {
  export interface PrivateProcess {
    readonly pid: number;
    log(): string;
    ended(): boolean;
  }
  export function startProcess(options: {
    readonly folder: string;
    readonly program: string;
    readonly args: readonly string[];
    readonly logName: string;
    readonly mark: string;
  }): Promise<PrivateProcess>;
  export function ready(name: string, server: PrivateProcess, isReady: () => boolean | Promise<boolean>): Promise<void>;
}

declare module '*/servers/process-identity.mjs' {
  export function startTimeOf(pid: number): string | null;
}

declare module '*/servers/probe.mjs' {
  export function redisAt(host: string, port: number): Promise<{ readonly pid: number | null }>;
}
