import { z } from 'zod';

/** Topic of chat messages in the outbox, and the `event` of their frames. */
export const imTopic = 'im.message';

const id = z.string().min(1, 'write 1 to 64 characters').max(64, 'write 1 to 64 characters');

const schema = z.object({
  conversationId: id,
  senderId: id,
  receiverId: id,
  content: z.string().min(1, 'write 1 to 4000 characters').max(4_000, 'write 1 to 4000 characters'),
});

/** What a client posts. */
export type ImMessage = z.output<typeof schema>;

/** The message, or what is wrong with it, one line per field. */
export function imMessage(value: unknown): { readonly message: ImMessage } | { readonly problems: readonly string[] } {
  const result = schema.safeParse(value);
  if (result.success) return { message: result.data };
  return { problems: result.error.issues.map(({ path, message }) => `${path.join('.') || 'body'}: ${message}`) };
}
