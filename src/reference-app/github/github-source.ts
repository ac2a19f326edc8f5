import { github, type Push, type SourceOptions } from '../../index.js';

/** Any GitHub webhook. GitHub does not sign its delivery id; what is repeated or missing there is refused. */
export function githubSource(secret: string): SourceOptions {
  return {
    path: 'webhooks/github',
    verify: github({ secrets: [secret] }),
    type: (push) => only(push, 'x-github-event'),
    dedupKey: (push) => only(push, 'x-github-delivery'),
    storeHeaders: ['x-github-event', 'x-github-delivery', 'x-github-hook-id'],
    // The largest payload that GitHub sends is 25 MB.
    maxBodyBytes: 25 * 1024 * 1024,
  };
}

function only(push: Push, name: string): string {
  const value = push.headers[name];
  if (typeof value !== 'string' || value === '' || value.includes(','))
    throw new TypeError(`${name} must be sent once`);
  return value;
}
