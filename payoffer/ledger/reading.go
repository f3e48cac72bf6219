package ledger

// Reading is what a chain says of an authorization at one moment.
type Reading struct {
	// Used says that its nonce is spent: it was used or canceled (EIP-3009
	// authorizationState).
	Used bool
	// Funds is what the payer has, in atomic units; math.MaxInt64 for more
	// than fits.
	Funds int64
	// Block is one that the reading does not go beyond: rows that cover it
	// hold the Transfer, if an authorization that is used made one.
	Block uint64
	// Time is when the chain's head was made, in Unix seconds.
	Time int64
}
