-- All of this is added beside what is there, so that an instance of the version before keeps reading and writing.

-- When the account was first watched, by this machine's clock and uncorrected, in Unix seconds; 0 = before this was kept.
ALTER TABLE accounts ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
-- What is after this position is covered, and what is before it, down to a lowered origin, is still to be read; '' = nothing.
ALTER TABLE cursors ADD COLUMN back TEXT NOT NULL DEFAULT '';

-- How the value in US dollars was fixed ('' = not said), and what the operator states while no source knows it.
ALTER TABLE receipts ADD COLUMN value_basis TEXT NOT NULL DEFAULT '';
ALTER TABLE receipts ADD COLUMN stated_cents INTEGER;
ALTER TABLE receipts ADD COLUMN stated_at INTEGER NOT NULL DEFAULT 0;

-- With seq it names a transition also after an older copy of the ledger was put back; 0 = written before this was kept.
ALTER TABLE transitions ADD COLUMN tag INTEGER NOT NULL DEFAULT 0;

-- The return that the transition tells of, '' for none, and when its money moved, as the source dates it; 0 where it does not.
ALTER TABLE transitions ADD COLUMN return_id TEXT NOT NULL DEFAULT '';
ALTER TABLE transitions ADD COLUMN return_kind TEXT NOT NULL DEFAULT '';
ALTER TABLE transitions ADD COLUMN moved_at INTEGER NOT NULL DEFAULT 0;

-- The currency of the amount; '' = the payment's own.
ALTER TABLE returns ADD COLUMN currency TEXT NOT NULL DEFAULT '';

-- The sums of money in another currency than the account's own, which stand in totals no more.
CREATE TABLE currency_totals (
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
	unknown_usd    INTEGER NOT NULL,
	PRIMARY KEY (offer, account, rail, currency, status, evidence_level, own, testnet)
) STRICT, WITHOUT ROWID;

INSERT INTO currency_totals
	SELECT offer, account, rail, asset, status, evidence_level, own, testnet, count(*), sum(amount), sum(min(refunded, amount)),
		sum(coalesce(usd_cents, 0)), sum(refunded_cents), count(*) - count(usd_cents)
	FROM receipts WHERE evidence_level <> 'chain' AND asset <> 'USD' GROUP BY 1, 2, 3, 4, 5, 6, 7, 8;
UPDATE totals SET count = totals.count - c.count, amount = totals.amount - c.amount, refunded = totals.refunded - c.refunded,
	usd_cents = totals.usd_cents - c.usd_cents, refunded_cents = totals.refunded_cents - c.refunded_cents,
	unknown_usd = totals.unknown_usd - c.unknown_usd
	FROM (SELECT offer, account, rail, status, evidence_level, own, testnet, sum(count) AS count, sum(amount) AS amount,
			sum(refunded) AS refunded, sum(usd_cents) AS usd_cents, sum(refunded_cents) AS refunded_cents, sum(unknown_usd) AS unknown_usd
		FROM currency_totals GROUP BY 1, 2, 3, 4, 5, 6, 7) AS c
	WHERE totals.offer = c.offer AND totals.account = c.account AND totals.rail = c.rail AND totals.status = c.status
		AND totals.evidence_level = c.evidence_level AND totals.own = c.own AND totals.testnet = c.testnet;

-- Transitions that a receiver of announcements did not take, and that hold up no other any more.
CREATE TABLE set_aside (
	offer  TEXT NOT NULL,
	sink   TEXT NOT NULL,
	seq    INTEGER NOT NULL,
	reason TEXT NOT NULL,
	at     INTEGER NOT NULL,
	PRIMARY KEY (offer, sink, seq)
) STRICT, WITHOUT ROWID;

-- Transfers that left an account: refunds, perhaps, which are not booked by themselves.
CREATE TABLE outgoing (
	account     TEXT NOT NULL,
	external_id TEXT NOT NULL,
	offer       TEXT NOT NULL,
	tx          TEXT NOT NULL,
	payee       TEXT NOT NULL,
	asset       TEXT NOT NULL,
	amount      INTEGER NOT NULL CHECK (amount >= 0),
	occurred_at INTEGER NOT NULL,
	noted_at    INTEGER NOT NULL,
	PRIMARY KEY (account, external_id),
	FOREIGN KEY (offer, account) REFERENCES accounts (offer, account)
) STRICT, WITHOUT ROWID;

CREATE INDEX outgoing_newest ON outgoing (offer, noted_at);
CREATE INDEX receipts_payer ON receipts (account, payer) WHERE payer <> '';
