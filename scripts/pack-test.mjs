#!/usr/bin/env node
// Packs the package as `npm publish` would and uses it as its users do: ES modules, CommonJS and TypeScript, in a project
// outside the checkout. Prints one line per check; the exit code is 1 when one failed. Dependencies must be installed.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ScratchProject } from './pack-test/scratch-project.mjs';
import { typeErrors } from './pack-test/type-check.mjs';
import { takeForeground } from './servers/foreground.mjs';
import { toStandardError } from './servers/log.mjs';
import { build } from './setup.mjs';

const doors = ['nestjs-mailroom', 'nestjs-mailroom/migrations', 'nestjs-mailroom/testing'];
const exports = ['InboxModule', 'InboxHandler', 'InboxService', 'standardWebhooks', 'github', 'PermanentFailureError'];

const expected = [
  'package.json',
  'LICENSE',
  'README.md',
  'README.zh-CN.md',
  'CHANGELOG.md',
  'dist/src/index.js',
  'dist/src/testing/index.js',
  'dist/migrations/index.js',
];

const unwanted = [
  [/reference-app/, 'the reference app'],
  [/\.spec\.|^test\/|\/test\//, 'a test'],
  [/(?<!\.d)\.[cm]?ts$/, 'a TypeScript source'],
  [/\.map$|\.tsbuildinfo$|^scripts\/|^\.|\/\./, 'a file of the build or of the checkout'],
];

const checks = {
  'the tarball holds what is documented and every target of its exports'(project) {
    const targets = Object.values(project.manifest.exports).flatMap((target) => Object.values(Object(target)));
    const paths = targets
      .filter((path) => typeof path === 'string' && path.startsWith('./'))
      .map((path) => path.slice(2));
    const missing = [...expected, ...paths].filter((path) => !project.files.includes(path));
    return missing.map((path) => `${path} is missing`);
  },
  'the tarball holds nothing else'(project) {
    return project.files.flatMap((path) =>
      unwanted.filter(([pattern]) => pattern.test(path)).map(([, what]) => `${path} is ${what}`),
    );
  },
  'no packed file points to a source map that is not packed'(project) {
    const code = project.files.filter((path) => /\.([cm]?js|d\.[cm]?ts)$/.test(path));
    return code.filter((path) => /^\/\/# sourceMappingURL=/m.test(readFileSync(join(project.installed, path), 'utf8')));
  },
  'ES modules can import it'(project) {
    const code = `const found = await Promise.all(${JSON.stringify(doors)}.map((door) => import(door)));
      console.log(${JSON.stringify(exports)}.filter((name) => found[0][name] === undefined).join());`;
    return missingExports(project.evaluate('module', code));
  },
  'CommonJS modules can require it'(project) {
    const code = `const found = ${JSON.stringify(doors)}.map((door) => require(door));
      console.log(${JSON.stringify(exports)}.filter((name) => found[0][name] === undefined).join());`;
    return missingExports(project.evaluate('commonjs', code));
  },
  'import and require give the same classes'(project) {
    const code = `import { createRequire } from 'node:module';
      import { InboxModule } from 'nestjs-mailroom';
      const required = createRequire(import.meta.url)('nestjs-mailroom');
      console.log(required.InboxModule === InboxModule);`;
    return project.evaluate('module', code).trim() === 'true' ? [] : ['InboxModule exists twice'];
  },
  'TypeScript accepts its use from ES modules and from CommonJS'(project) {
    return typeErrors(project, [project.add('consumer.ts'), project.add('consumer.cts')]);
  },
  'it can be imported without the optional peers'(project) {
    const optional = Object.entries(project.manifest.peerDependenciesMeta).filter(([, meta]) => meta.optional);
    for (const [name] of optional) project.unlink(name);
    project.evaluate('module', `await Promise.all(${JSON.stringify(doors)}.map((door) => import(door)));`);
    return [];
  },
};

function missingExports(names) {
  return names
    .trim()
    .split(',')
    .filter(Boolean)
    .map((name) => `${name} is not exported`);
}

function reasonsOf(check, project) {
  try {
    return check(project);
  } catch (error) {
    return [error.message];
  }
}

try {
  await build(takeForeground(), toStandardError);
  const project = new ScratchProject();
  for (const [promise, check] of Object.entries(checks)) {
    const reasons = reasonsOf(check, project);
    console.log(reasons.length === 0 ? `ok    ${promise}` : `FAIL  ${promise}\n      ${reasons.join('\n      ')}`);
    if (reasons.length > 0) process.exitCode = 1;
  }
  project.close();
} catch (error) {
  toStandardError(`pack-test: ${error.message}`);
  process.exitCode = 1;
}
