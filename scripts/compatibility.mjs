#!/usr/bin/env node
// `npm run compatibility`: the inbox and lease tests against the oldest versions that package.json's peers allow, in a
// copy of the checkout. Takes the database and Redis of DATABASE_URL and REDIS_URL, or starts private ones.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { checkout } from './setup.mjs';

const oldest = [
  '@nestjs/common@11.0.0',
  '@nestjs/core@11.0.0',
  '@nestjs/platform-express@11.0.0',
  '@nestjs/platform-fastify@11.0.0',
  '@nestjs/testing@11.0.0',
  '@nestjs/schedule@6.0.0',
  '@nestjs/typeorm@11.0.0',
  'typeorm@0.3.20',
  'mysql2@3.9.0',
  // The newest major: the development runs on the one before.
  'ioredis@6',
];

const folder = mkdtempSync(join(tmpdir(), 'mailroom-compatibility-'));
process.exitCode = 1;
try {
  const left = new Set(['node_modules', 'dist', '.git']);
  cpSync(checkout, folder, { recursive: true, filter: (path) => path === checkout || !left.has(basename(path)) });
  const run = (command, args) => {
    const { status } = spawnSync(command, args, { cwd: folder, stdio: 'inherit' });
    if (status !== 0) throw new Error(`${command} ${args.slice(0, 3).join(' ')} ended with ${status}`);
  };
  run('npm', ['install', '--no-audit', '--no-fund', '--legacy-peer-deps', '--save-dev', ...oldest]);
  run(process.execPath, [
    join(folder, 'scripts/servers.mjs'),
    'run',
    '--',
    process.execPath,
    '--no-warnings',
    '--experimental-vm-modules',
    'node_modules/jest/bin/jest.js',
    '-c',
    'test/jest.config.mjs',
    '--selectProjects=integration',
    '--testPathPatterns',
    'integration/(inbox|lease)/',
  ]);
  process.exitCode = 0;
} catch (error) {
  console.error(`compatibility: ${error.message}`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
