import { z } from 'zod';
import { PermanentFailureError, type SourceOptions } from '../../index.js';

/** The CRM's number for "a customer profile has changed"; its other numbers are not for us. */
const profileChanged = 1008;

export const crmSource = 'crm';
export const profileType = 'profile.changed';

/** A customer's profile as the CRM writes it into `msgStr`. */
export interface CrmProfile {
  readonly externalId: string;
  readonly name: string;
  readonly phone: string;
}

const profileSchema = z.looseObject({
  externalId: z.string().min(1).max(64),
  name: z.string().max(200),
  phone: z.string().max(32),
});

interface CrmPush {
  readonly msgType?: unknown;
  readonly msgStr?: unknown;
}

/** Pushes carry no id, so none is a duplicate of another, and no order: one lane handles one after the other. */
export function crmSourceOptions(): SourceOptions {
  return {
    type: profileType,
    accept: (push) => {
      const { msgType, msgStr } = (push.json ?? {}) as CrmPush;
      return msgType === profileChanged && typeof msgStr === 'string' && msgStr !== '';
    },
  };
}

/** The profile in a push. @throws PermanentFailureError kind `undecodable`: the same text would be read again */
export function profileOf(push: CrmPush): CrmProfile {
  try {
    return profileSchema.parse(JSON.parse(String(push.msgStr)));
  } catch {
    throw new PermanentFailureError('msgStr holds no profile { externalId, name, phone }', { kind: 'undecodable' });
  }
}
