/** A message that is ours for now. The token is the fence of the row. */
export interface Claim {
  readonly id: string;
  readonly token: Buffer;
}

export interface ClaimRequest extends Claim {
  /** Goes to `claimed_by`. */
  readonly claimant: string;
  /** How long the claim lives; null: as long as the lane's lease, which is right for a transactional handler. */
  readonly claimMs: number | null;
}
