import type { ClaimStore } from './claim.store.js';
import type { HeldClaim } from './claims-in-hand.js';
import type { Authority } from './outcome-writer.js';

/** What entitles a competing consumer to the outcome of a message: its claim alone. */
export function claimAuthority(store: ClaimStore, claim: HeldClaim): Authority {
  return {
    isHeld: () => claim.isHeld(),
    get signal() {
      return claim.lost.signal;
    },
    complete: (send, completion) => store.complete(send, completion),
  };
}
