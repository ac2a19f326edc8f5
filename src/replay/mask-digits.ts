/** Masks what may be the number of a phone, a card or a person: runs of 7 and more digits, but for the last two. */
export function maskDigits(text: string): string {
  return text.replace(/\d(?:[ -]?\d){6,}/g, (found) => {
    const digits = found.replace(/\D/g, '').length;
    let seen = 0;
    return found.replace(/\d/g, (digit) => (++seen > digits - 2 ? digit : '*'));
  });
}
