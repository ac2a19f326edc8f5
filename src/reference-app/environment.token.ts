/** Injection token of the checked environment. */
export const environmentToken = Symbol('environment');
