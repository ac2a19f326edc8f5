/** A date, perhaps with its hour: digits and dashes that are no number of anybody. */
const date = /^\d{4}-[01]\d-[0-3]\d(?: [0-2]\d)?$/;

/** Masks what may be the number of a phone, a card or a person: runs of 7 and more digits, but for the last two. */
export function maskDigits(text: string): string {
  return text.replace(/\p{Nd}(?:[ ()-]{0,2}\p{Nd}){6,}/gu, (found) => {
    if (date.test(found)) return found;
    const digits = found.match(/\p{Nd}/gu)?.length ?? 0;
    let seen = 0;
    return found.replace(/\p{Nd}/gu, (digit) => (++seen > digits - 2 ? digit : '*'));
  });
}
