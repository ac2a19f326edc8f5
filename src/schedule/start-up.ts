import type { StartUpCheck } from '../database/index.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { MailroomLogger } from '../observability/logging/mailroom-logger.js';
import { isLate } from './shutdown.js';

export type ModuleName = 'InboxModule' | 'OutboxModule' | 'ReplayModule' | 'RetentionModule';

const patienceMs = 10_000;
const advice =
  'handlers wait for one another and for your requests: set poolSize of the DataSource above their sum, and leave some for requests';

/** What the modules of an application found when it started, told in one line. */
export class StartUp {
  private readonly logger = new MailroomLogger('Mailroom');
  private readonly modules = new Set<ModuleName>();
  private readonly found = new Map<string, StartUpCheck>();
  private readonly asked = new Map<object, Promise<readonly StartUpCheck[]>>();
  private readonly workers = new Map<string, number>();
  private told = false;

  /**
   * One of each kind in an application: two would consume the same tables with the limits of one.
   * @throws InvalidOptionsError for a second one
   */
  enter(module: ModuleName): void {
    if (this.modules.has(module))
      throw new InvalidOptionsError(
        module,
        undefined,
        `it is imported twice: call ${module}.forRoot once, in the root module; what it provides can be injected everywhere`,
      );
    this.modules.add(module);
  }

  /**
   * How the server is set up; asked once for each DataSource, whoever asks first.
   * Rejects as `ask` does, also when there is no answer for a while: the start must not hang on it.
   */
  async server(dataSource: object, ask: () => Promise<readonly StartUpCheck[]>): Promise<void> {
    const asking = this.asked.get(dataSource) ?? this.answered(ask);
    this.asked.set(dataSource, asking);
    for (const check of await asking) this.found.set(check.check, check);
  }

  /** What works at once on connections of the application's own pool: `inbox.lanes` and the like. */
  uses(option: string, atOnce: number, poolSize: number): void {
    this.workers.set(option, atOnce);
    const all = [...this.workers.values()].reduce((sum, one) => sum + one, 0);
    const found = `${[...this.workers].map(([name, count]) => `${name} ${count}`).join(' + ')} at once, poolSize ${poolSize}`;
    this.found.set(
      'pool',
      all <= poolSize ? { check: 'pool', status: 'ok', found } : { check: 'pool', status: 'warn', found, advice },
    );
  }

  private async answered(ask: () => Promise<readonly StartUpCheck[]>): Promise<readonly StartUpCheck[]> {
    let checks: readonly StartUpCheck[] = [];
    const asking = ask().then((found) => {
      checks = found;
    });
    if (await isLate(asking, patienceMs)) throw new Error(`no answer within ${patienceMs} ms`);
    return checks;
  }

  checks(): readonly StartUpCheck[] {
    return [...this.found.values()];
  }

  /** When all modules have looked: one line, a warning when something needs a person. */
  tell(): void {
    if (this.told) return;
    this.told = true;
    const checks = this.checks();
    if (checks.length === 0) return;
    const warnings = checks.filter(({ status }) => status === 'warn');
    const ok = Object.fromEntries(
      checks.flatMap(({ check, status, found }) => (status === 'ok' ? [[check, found]] : [])),
    );
    if (warnings.length === 0) {
      this.logger.log({ msg: 'start-up checks: all is well', ok });
      return;
    }
    const toDo = warnings.map(({ check, found, advice }) => `${check}: ${found}; ${advice}`);
    this.logger.warn({ msg: `start-up checks: ${warnings.length} of ${checks.length} need a look`, toDo, ok });
  }
}
