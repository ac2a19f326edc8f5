// The reference pages against the code: every option and every dependency has its line, and no line is left over;
// links lead somewhere. No server.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import ts from 'typescript';
import { parseDuration } from '../../src/config/index.js';
import { resolveInboxOptions } from '../../src/inbox/inbox-options.js';
import { localTransport, WebSocketReceivers } from '../../src/index.js';
import { resolveLogOptions } from '../../src/observability/logging/index.js';
import { type MetricDefinition, metricDefinitions } from '../../src/observability/metrics/metric-definitions.js';
import { resolveOutboxOptions } from '../../src/outbox/outbox-options.js';
import { resolveWebSocketOptions } from '../../src/outbox/transports/websocket/websocket-options.js';

const textOf = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

/** Rows of the tables of a page whose first cell is one name in backticks: [name, second cell, ...]. */
function rowsOf(page: string): string[][] {
  return page
    .split('\n')
    .filter((line) => /^\| `[^`]+` \|/.test(line))
    .map((line) => line.split(/(?<!\\)\|/).slice(1, -1))
    .map(([name = '', ...cells]) => [name.trim().slice(1, -1), ...cells.map((cell) => cell.trim())]);
}

const section = (page: string, heading: string) => page.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? '';

/** The keys of the `z.strictObject({...})` that a constant of a source file is, `lease.ttl` for nested ones. */
function schemaKeys(path: string, constant: string): string[] {
  const file = ts.createSourceFile(path, textOf(path), ts.ScriptTarget.ES2022, true);
  const declaration = file.statements
    .filter(ts.isVariableStatement)
    .flatMap((statement) => [...statement.declarationList.declarations])
    .find((one) => one.name.getText() === constant);
  const shape = declaration?.initializer && strictObject(declaration.initializer);
  if (!shape) throw new Error(`${path} has no z.strictObject named ${constant}`);
  return keysOf(shape, '');
}

function keysOf(shape: ts.ObjectLiteralExpression, prefix: string): string[] {
  return shape.properties.filter(ts.isPropertyAssignment).flatMap((property) => {
    const name = prefix + property.name.getText();
    const inner = strictObject(property.initializer);
    return inner ? keysOf(inner, `${name}.`) : [name];
  });
}

/** The object in `z.strictObject({...}).refine(...).prefault(...)`. */
function strictObject(node: ts.Node): ts.ObjectLiteralExpression | undefined {
  if (!ts.isCallExpression(node)) return undefined;
  const [argument] = node.arguments;
  if (
    node.expression.getText().replace(/\s/g, '') === 'z.strictObject' &&
    argument &&
    ts.isObjectLiteralExpression(argument)
  ) {
    return argument;
  }
  return ts.isPropertyAccessExpression(node.expression) ? strictObject(node.expression.expression) : undefined;
}

const pages = [
  'README.md',
  'README.zh-CN.md',
  'CHANGELOG.md',
  'test/README.md',
  ...readdirSync(new URL('../../docs', import.meta.url))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];

test.each(pages)('%s links to files and headings that exist', (page) => {
  const links = [...textOf(page).matchAll(/\]\((?!https?:)([^)\s]+)\)/g)].map(([, link = '']) => link);
  const broken = links.filter((link) => {
    const [path = '', anchor] = link.split('#');
    const target = path === '' ? page : join(dirname(page), path);
    return !existsSync(new URL(`../../${target}`, import.meta.url)) || (anchor && !anchorsOf(target).includes(anchor));
  });
  expect(broken).toEqual([]);
});

/** As GitHub makes them: `## When a handler runs again` is `#when-a-handler-runs-again`. */
function anchorsOf(page: string): string[] {
  const text = textOf(page);
  const headings = [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replace(/ /g, '-'),
  );
  return [...headings, ...[...text.matchAll(/<a (?:id|name)="([^"]+)"/g)].map(([, id = '']) => id)];
}

test('both READMEs have the same code, comments aside', () => {
  const code = (page: string) =>
    [...textOf(page).matchAll(/^```(?:ts|js)\n(.*?)^```/gms)].map(([, block = '']) =>
      block.replace(/\s*\/\/ .*$/gm, ''),
    );
  expect(code('README.md')).toHaveLength(2);
  expect(code('README.zh-CN.md')).toEqual(code('README.md'));
});

describe('docs/options.md', () => {
  const page = textOf('docs/options.md');
  const [moduleOptions = '', sourceOptions = ''] = page.split('\n## Sources\n');

  test('lists exactly the options of the module', () => {
    const elsewhere: Readonly<Record<string, readonly [path: string, constant: string]>> = {
      breaker: ['src/pressure/breaker-options.ts', 'breakerSchema'],
      idempotency: ['src/inbox/idempotency-options.ts', 'idempotencySchema'],
    };
    const keys = schemaKeys('src/inbox/inbox-options.ts', 'schema').flatMap((key) => {
      const place = elsewhere[key];
      return place ? schemaKeys(...place).map((inner) => `${key}.${inner}`) : [key];
    });
    expect(keys).toContain('lease.ttl');
    expect(
      rowsOf(moduleOptions)
        .map(([name]) => name)
        .sort(),
    ).toEqual(keys.sort());
  });

  test('lists exactly the options of a source', () => {
    const keys = schemaKeys('src/inbox/source-options.ts', 'sourceSchema');
    expect(
      rowsOf(sourceOptions)
        .map(([name]) => name)
        .sort(),
    ).toEqual(keys.sort());
  });

  test('states the defaults that the code has', () => {
    const resolved = resolveInboxOptions({ sources: {} });
    const compared = rowsOf(moduleOptions).flatMap(([name = '', cell = '']) => {
      const value = name.split('.').reduce<unknown>((part, key) => (part as Record<string, unknown>)?.[key], resolved);
      const stated = statedValue(cell);
      return stated === undefined ? [] : [{ name, stated, value }];
    });
    expect(compared.length).toBeGreaterThan(15);
    for (const { name, stated, value } of compared) expect({ [name]: stated }).toEqual({ [name]: value });
  });
});

describe('docs/outbox.md', () => {
  const page = textOf('docs/outbox.md');
  const names = (text: string) =>
    rowsOf(text)
      .map(([name]) => name)
      .sort();
  const sending = section(page, 'Sending');

  test('lists exactly the options of the module', () => {
    expect(names(sending)).toEqual(schemaKeys('src/outbox/outbox-options.ts', 'schema').sort());
  });

  test('states the defaults that the code has', () => {
    const resolved = resolveOutboxOptions({ transports: { local: localTransport() } });
    const compared = rowsOf(sending).flatMap(([name = '', cell = '']) => {
      const value = name.split('.').reduce<unknown>((part, key) => (part as Record<string, unknown>)?.[key], resolved);
      const stated = statedValue(cell);
      return stated === undefined ? [] : [{ name, stated, value }];
    });
    expect(compared.length).toBeGreaterThan(10);
    for (const { name, stated, value } of compared) expect({ [name]: stated }).toEqual({ [name]: value });
  });

  test('lists exactly the fields of a message', () => {
    const [fields] = section(page, 'Enqueueing').split('\n### ');
    expect(names(fields ?? '')).toEqual(interfaceKeys('src/outbox/outgoing-message.ts', 'OutgoingMessage').sort());
  });

  test('lists exactly the options of clientProxyTransport', () => {
    expect(names(section(page, 'Transports')).filter((name = '') => !name.endsWith(')'))).toEqual(
      schemaKeys('src/outbox/transports/client-proxy/client-proxy-options.ts', 'schema').sort(),
    );
  });
});

describe('docs/websocket.md', () => {
  const rows = rowsOf(section(textOf('docs/websocket.md'), 'Options'));

  test('lists exactly the options of websocketTransport', () => {
    expect(rows.map(([name]) => name).sort()).toEqual(
      schemaKeys('src/outbox/transports/websocket/websocket-options.ts', 'schema').sort(),
    );
  });

  test('states the defaults that the code has', () => {
    const resolved: Readonly<Record<string, unknown>> = resolveWebSocketOptions({
      receivers: new WebSocketReceivers(),
    });
    for (const [name = '', cell = ''] of rows) {
      const stated = statedValue(cell);
      if (stated !== undefined) expect({ [name]: resolved[name] }).toEqual({ [name]: stated });
    }
  });
});

/** The members of an interface of a source file. */
function interfaceKeys(path: string, name: string): string[] {
  const file = ts.createSourceFile(path, textOf(path), ts.ScriptTarget.ES2022, true);
  const found = file.statements.filter(ts.isInterfaceDeclaration).find((one) => one.name.text === name);
  if (!found) throw new Error(`${path} has no interface ${name}`);
  return found.members.flatMap((member) => (member.name ? [member.name.getText()] : []));
}

/** What a default cell says: `true`, `'database'`, `50`, `2s`, `1 MiB`; undefined for words. */
function statedValue(cell: string): unknown {
  const text = /^`([^`]+)`$/.exec(cell)?.[1] ?? '';
  if (/^'[^']*'$/.test(text)) return text.slice(1, -1);
  if (text === 'true' || text === 'false') return text === 'true';
  if (/^\d+$/.test(text)) return Number(text);
  if (/^\d+ MiB$/.test(text)) return Number.parseInt(text, 10) * 1_048_576;
  return /^\d+(ms|s|m|h|d)$/.test(text) ? parseDuration(text, 'default') : undefined;
}

test('docs/handlers.md lists exactly the options of @InboxHandler', () => {
  const keys = schemaKeys('src/inbox/handler-registry.ts', 'schema').filter((key) => key !== 'type');
  const table = section(textOf('docs/handlers.md'), 'Marking a method');
  expect(
    rowsOf(table)
      .map(([name]) => name)
      .sort(),
  ).toEqual(keys.sort());
});

test('docs/handlers.md lists exactly the options of @InboxBatchHandler', () => {
  const keys = schemaKeys('src/inbox/handler-registry.ts', 'batchSchema').filter((key) => key !== 'type');
  const table = section(textOf('docs/handlers.md'), 'Many messages at once');
  expect(
    rowsOf(table)
      .map(([name]) => name)
      .sort(),
  ).toEqual(keys.sort());
});

describe('docs/dependencies.md', () => {
  const page = textOf('docs/dependencies.md');
  const { dependencies, peerDependencies, devDependencies } = JSON.parse(textOf('package.json'));
  const names = (heading: string) =>
    rowsOf(section(page, heading))
      .map(([name]) => name)
      .sort();

  test('has one line for each dependency', () => {
    expect(names('At run time')).toEqual(Object.keys(dependencies).sort());
  });

  test('has one line for each peer', () => {
    expect(names('Peers: your application brings them')).toEqual(Object.keys(peerDependencies).sort());
  });

  test('has one line for each package for development that is no peer', () => {
    const own = Object.keys(devDependencies).filter((name) => !(name in peerDependencies));
    expect(names('For development')).toEqual(own.sort());
  });
});

test.each([
  ['Run again', 'src/replay/replay-options.ts'],
  ['Take out what is old', 'src/retention/retention-options.ts'],
])('docs/replay.md, %s, lists exactly the options of the module', (heading, path) => {
  const names = rowsOf(section(textOf('docs/replay.md'), heading)).map(([name]) => name);
  expect(names.sort()).toEqual(schemaKeys(path, 'schema').sort());
});
describe('docs/observability.md', () => {
  const page = textOf('docs/observability.md');
  const metrics = section(page, 'Metrics');

  test('lists exactly the metrics, with their labels', () => {
    const listed = rowsOf(metrics).filter(([name = '']) => name.startsWith('mailroom_'));
    const expected = Object.entries<MetricDefinition>(metricDefinitions).map(([name, { type, labels, isSampled }]) => [
      name,
      isSampled ? `sampled ${type}` : type,
      labels.join(', ') || '-',
    ]);
    expect(listed.map((row) => row.slice(0, 3)).sort()).toEqual(expected.sort());
  });

  test('lists exactly the options of the metrics', () => {
    const listed = rowsOf(metrics).filter(([name = '']) => !name.startsWith('mailroom_'));
    expect(listed.map(([name]) => name).sort()).toEqual(
      schemaKeys('src/observability/metrics/metrics-options.ts', 'metricsSchema').sort(),
    );
  });

  test('lists exactly the options of the log, with their defaults', () => {
    const rows = rowsOf(section(page, 'Log lines'));
    expect(rows.map(([name]) => name).sort()).toEqual(
      schemaKeys('src/observability/logging/log-options.ts', 'logSchema').sort(),
    );
    const { sampleRate, slow } = resolveLogOptions({});
    expect(rows.map(([name, stated]) => `${name} ${stated}`)).toEqual(
      expect.arrayContaining([`sampleRate \`${sampleRate}\``, `slow \`${slow / 1_000}s\``]),
    );
  });

  test('lists exactly the options of health', () => {
    expect(
      rowsOf(section(page, 'Health'))
        .map(([name]) => name)
        .sort(),
    ).toEqual(schemaKeys('src/observability/health/health-options.ts', 'healthSchema').sort());
  });

  test('lists exactly the events, with their fields', () => {
    const listed = rowsOf(section(page, 'Events')).map(([name, , fields]) => `${name}: ${fields}`);
    expect(listed.sort()).toEqual(eventsOfTheCode().sort());
  });
});

/** `name: field, field` of each member of the union in events.ts. */
function eventsOfTheCode(): string[] {
  const path = 'src/observability/events.ts';
  const file = ts.createSourceFile(path, textOf(path), ts.ScriptTarget.ES2022, true);
  const interfaces = new Map(
    file.statements.filter(ts.isInterfaceDeclaration).map((one) => [one.name.text, one.members.map(nameOf)]),
  );
  const union = file.statements.filter(ts.isTypeAliasDeclaration).find(({ name }) => name.text === 'MailroomEvent');
  const parts = union && ts.isUnionTypeNode(union.type) ? union.type.types : [];
  return parts.map((part) => {
    const { literals, fields } = membersOf(part, interfaces);
    return `${literals.join()}: ${fields.join(', ')}`;
  });
}

const nameOf = (member: ts.TypeElement) => member.name?.getText() ?? '';

function membersOf(
  node: ts.TypeNode,
  interfaces: ReadonlyMap<string, readonly string[]>,
): { literals: string[]; fields: string[] } {
  if (ts.isParenthesizedTypeNode(node)) return membersOf(node.type, interfaces);
  if (ts.isTypeReferenceNode(node)) return { literals: [], fields: [...(interfaces.get(node.getText()) ?? [])] };
  if (ts.isIntersectionTypeNode(node)) {
    const parts = node.types.map((part) => membersOf(part, interfaces));
    return { literals: parts.flatMap((part) => part.literals), fields: parts.flatMap((part) => part.fields) };
  }
  if (!ts.isTypeLiteralNode(node)) return { literals: [], fields: [] };
  const name = node.members.find((member) => nameOf(member) === 'name');
  const literal = name && ts.isPropertySignature(name) ? name.type?.getText().slice(1, -1) : undefined;
  return { literals: [literal ?? ''], fields: node.members.map(nameOf).filter((field) => field !== 'name') };
}
