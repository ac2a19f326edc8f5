/** Injection token of the options as given. */
export const inboxOptionsToken = Symbol.for('mailroom:inbox-options');
/** Injection token of the parts that the module is built of. */
export const inboxPartsToken = Symbol.for('mailroom:inbox-parts');
