/** For tests of applications that use mailroom: published at nestjs-mailroom/testing. */
export { drainInbox } from './drain.js';
export { type SampleMessage, sampleMessage } from './sample-message.js';
export { type ContractCase, type ContractSubject, transportContract } from './transport-contract.js';
