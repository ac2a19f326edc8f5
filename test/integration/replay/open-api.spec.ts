// The OpenAPI description of the replay routes by the real @nestjs/swagger, in a process of its own: there the module is
// loaded as in an application. And the same application where that package cannot be found.
import { startChild } from '../../support/child.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';

let database: TestDatabase;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('open_api'));
  await database.query(
    `INSERT INTO inbox_message (source, type, body, status, attempts, error_kind, next_attempt_at, received_at, finished_at)
     VALUES ('s', 't', '{}', 'failed', 4, 'away', '2026-01-01', '2026-01-01', '2026-01-01')`,
  );
});
afterAll(() => database.drop());

type Schema = { type?: string; items?: Schema; properties?: Record<string, Schema>; required?: string[] };
interface Operation {
  readonly responses: Record<string, { content?: Record<string, { schema: Schema }> }>;
  readonly parameters: readonly { name: string; in: string }[];
  readonly requestBody?: { content: Record<string, { schema: Schema }> };
}
interface Printed {
  readonly document: { paths: Record<string, Record<string, Operation>> } | null;
  readonly answers: Record<string, unknown>;
}

async function described(swagger: 'there' | 'missing'): Promise<Printed> {
  const child = startChild(new URL('../../support/fixtures/open-api.ts', import.meta.url), {
    env: { DATABASE_URL: database.url, SWAGGER: swagger },
  });
  expect(await child.ended).toMatchObject({ code: 0 });
  return JSON.parse(child.stdout) as Printed;
}

test('the document has every route, and its answers have the fields that the routes answer with', async () => {
  const { document, answers } = await described('there');
  const routes = Object.entries(document?.paths ?? {}).flatMap(([path, operations]) =>
    Object.keys(operations).map((method) => `${method} ${path}`),
  );
  expect(routes.sort()).toEqual([
    'get /admin/replay/messages',
    'get /admin/replay/messages/{id}',
    'get /admin/replay/runs',
    'get /admin/replay/runs/{id}',
    'get /admin/replay/runs/{id}/items',
    'post /admin/replay/messages/{id}/edit',
    'post /admin/replay/preview',
    'post /admin/replay/runs',
    'post /admin/replay/runs/{id}/cancel',
    'post /admin/replay/runs/{id}/resume',
  ]);
  for (const [route, answer] of Object.entries(answers)) {
    const [method = '', path = ''] = route.split(' ');
    const operation = document?.paths[path]?.[method];
    const done = Object.entries(operation?.responses ?? {}).find(([status]) => status.startsWith('2'));
    const schema = Object.values(done?.[1].content ?? {})[0]?.schema ?? {};
    expect([route, fieldsOf(schema)]).toEqual([route, fieldsOfValue(answer)]);
    expect(Object.keys(operation?.responses ?? {})).toEqual(expect.arrayContaining(['401', '403']));
  }
  const list = document?.paths['/admin/replay/messages']?.get;
  expect(list?.parameters.map(({ name }) => name)).toEqual(expect.arrayContaining(['errorContains', 'after', 'limit']));
  const start = document?.paths['/admin/replay/runs']?.post?.requestBody?.content['application/json']?.schema;
  expect(start?.required).toEqual(['selection', 'reason']);
});

test('without the package everything else works', async () => {
  const { document, answers } = await described('missing');
  expect(document).toBeNull();
  expect(answers['post /admin/replay/runs']).toMatchObject({ state: 'pending', selected: 1 });
});

function fieldsOf(schema: Schema): unknown {
  if (schema.type === 'array') return [fieldsOf(schema.items ?? {})];
  return schema.properties === undefined
    ? 'value'
    : Object.fromEntries(
        Object.entries(schema.properties)
          .sort(([a], [b]) => a.localeCompare(b))
          .map(([name, inner]) => [name, fieldsOf(inner)]),
      );
}

function fieldsOfValue(value: unknown): unknown {
  if (Array.isArray(value)) return value.length === 0 ? expect.anything() : [fieldsOfValue(value[0])];
  if (typeof value !== 'object' || value === null || Object.keys(value).length === 0) return 'value';
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => a.localeCompare(b))
      .map(([name, inner]) => [name, fieldsOfValue(inner)]),
  );
}
