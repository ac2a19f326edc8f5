import type { Observable } from 'rxjs';

/** Nest's `ClientProxy`, as far as it is needed here; its own types need @nestjs/microservices to be installed. */
export interface GivenClientProxy {
  connect(): Promise<unknown>;
  // biome-ignore lint/suspicious/noExplicitAny: the signatures of Nest's own class
  send(pattern: any, data: any): Observable<unknown>;
  // biome-ignore lint/suspicious/noExplicitAny: as above
  emit(pattern: any, data: any): Observable<unknown>;
}
