-- What is to be added to totals and to currency_totals, and belongs to the sums already. Changes wait on PostgreSQL alone, where
-- payments would wait for each other's rows of the sums; here they come with a copy of such a ledger.
CREATE TABLE total_changes (
	id             INTEGER PRIMARY KEY,
	offer          TEXT NOT NULL,
	account        TEXT NOT NULL,
	rail           TEXT NOT NULL,
	currency       TEXT NOT NULL,
	status         TEXT NOT NULL,
	evidence_level TEXT NOT NULL,
	own            INTEGER NOT NULL,
	testnet        INTEGER NOT NULL,
	count          INTEGER NOT NULL,
	amount         INTEGER NOT NULL,
	refunded       INTEGER NOT NULL,
	usd_cents      INTEGER NOT NULL,
	refunded_cents INTEGER NOT NULL,
	unknown_usd    INTEGER NOT NULL
) STRICT;
