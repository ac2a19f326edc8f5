import { Controller, Get, Inject, Res, type Type } from '@nestjs/common';
import { MailroomMetrics } from './mailroom-metrics.js';

/** What Express and Fastify have in common. */
interface TextResponse {
  header(name: string, value: string): unknown;
}

/** `GET <path>` with the whole registry, as Prometheus reads it. */
export function metricsController(path: string): Type {
  @Controller(path)
  class MetricsController {
    constructor(@Inject(MailroomMetrics) private readonly metrics: MailroomMetrics) {}

    @Get()
    async scrape(@Res({ passthrough: true }) response: TextResponse): Promise<string> {
      const text = await this.metrics.registry.metrics();
      response.header('Content-Type', this.metrics.registry.contentType);
      return text;
    }
  }
  return MetricsController;
}
