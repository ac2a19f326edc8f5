import { z } from 'zod';

/** What an e-signature platform pushes when somebody has signed, rejected or withdrawn. */
export interface ContractEvent {
  readonly msgId?: string | undefined;
  readonly contractId: string;
  readonly signStatus: string;
  /** ISO time with an offset, or milliseconds since 1970. */
  readonly signTime: string | number;
}

/** Milliseconds from 1970 to the year 9999: what a DATETIME can hold. */
const latestMs = 253_402_300_799_999;

const schema = z.looseObject({
  msgId: z.string().min(1).max(200).optional(),
  contractId: z.string().min(1).max(64),
  signStatus: z.string().regex(/^[\x21-\x7e]{1,32}$/),
  signTime: z.union([z.iso.datetime({ offset: true }), z.number().int()]).refine((time) => {
    const ms = new Date(time).getTime();
    return ms >= 0 && ms <= latestMs;
  }),
});

/** Checked while the push is taken in: what is no contract event is answered 400 and not stored. */
export function contractEvent(value: unknown): ContractEvent {
  return schema.parse(value);
}

/** The instant of an event as a DATETIME(3) in UTC: no Date crosses the driver. */
export function signTimeOf({ signTime }: ContractEvent): string {
  return new Date(signTime).toISOString().replace('T', ' ').slice(0, 23);
}
