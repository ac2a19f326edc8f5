// Arrows go one way (see the layout in docs/architecture.md): a lower folder never imports a higher one, features never
// import each other, and the reference app uses only what a user of the package can import.
const layers = {
  errors: ['config'],
  message: ['errors'],
  config: ['errors', 'message'],
  observability: ['errors', 'message', 'config'],
  database: ['errors', 'message', 'config', 'observability'],
  schedule: ['errors', 'message', 'config', 'observability', 'database'],
  lease: ['errors', 'message', 'config', 'observability', 'database', 'schedule'],
  delivery: ['errors', 'message', 'config', 'observability', 'database', 'schedule', 'lease'],
  signature: ['errors', 'message', 'config'],
  pressure: ['errors', 'message', 'config', 'observability', 'database', 'schedule'],
  idempotency: ['errors', 'message', 'config', 'observability', 'database', 'schedule'],
  retention: ['errors', 'message', 'config', 'observability', 'database', 'schedule', 'lease', 'delivery'],
  inbox: [
    'errors',
    'message',
    'config',
    'observability',
    'database',
    'schedule',
    'lease',
    'delivery',
    'signature',
    'pressure',
    'idempotency',
  ],
  outbox: [
    'errors',
    'message',
    'config',
    'observability',
    'database',
    'schedule',
    'lease',
    'delivery',
    'pressure',
    'idempotency',
  ],
  // Its command line takes out what is old, too.
  replay: ['errors', 'message', 'config', 'observability', 'database', 'schedule', 'lease', 'delivery', 'retention'],
};

const arrows = Object.entries(layers).map(([folder, allowed]) => ({
  name: `arrows-of-${folder}`,
  comment: `src/${folder} may import only ${[folder, ...allowed].join(', ')}`,
  severity: 'error',
  from: { path: `^src/${folder}/` },
  // The command line of replay runs migrations, too.
  to: {
    path: '^(src|migrations)/',
    pathNot: `^src/(${[folder, ...allowed].join('|')})/${folder === 'replay' ? '|^migrations/index\\.ts$' : ''}`,
  },
}));

module.exports = {
  forbidden: [
    ...arrows,
    {
      name: 'no-circular',
      severity: 'error',
      from: {},
      to: { circular: true },
    },
    {
      name: 'reference-app-uses-the-public-doors',
      comment: 'the reference app imports what a user can import: the package index, testing and migrations',
      severity: 'error',
      from: { path: '^src/reference-app/' },
      to: {
        path: '^(src|migrations)/',
        pathNot: '^src/(reference-app/|index\\.ts$|testing/index\\.ts$)|^migrations/(index\\.ts$|examples/)',
      },
    },
    {
      name: 'migrations-stand-alone',
      comment: 'a released migration is frozen: nothing it imports may change under it',
      severity: 'error',
      from: { path: '^migrations/' },
      to: { path: '^src/' },
    },
    {
      name: 'library-does-not-use-dev-dependencies',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(reference-app|testing)/' },
      to: { dependencyTypes: ['npm-dev'], dependencyTypesNot: ['npm-peer', 'npm-optional'] },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsConfig: { fileName: 'tsconfig.json' },
    tsPreCompilationDeps: true,
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node', 'default', 'types'],
    },
  },
};
