-- The changes of schema/sqlite in the types of PostgreSQL.

-- What went back of a payment, as the latest word on each refund or dispute says. It may be known before the
-- payment is: receipt_id is NULL until then, and it counts nowhere.
CREATE TABLE returns (
	offer       TEXT NOT NULL,
	account     TEXT NOT NULL,
	external_id TEXT NOT NULL,
	return_id   TEXT NOT NULL,
	receipt_id  BIGINT REFERENCES receipts (id),
	kind        TEXT NOT NULL,        -- refund | refund_total | reversal
	amount      BIGINT NOT NULL CHECK (amount >= 0),
	gone        BOOLEAN NOT NULL,
	proven      BOOLEAN NOT NULL,     -- an unsigned word moves only what rests on unsigned words itself
	at          BIGINT NOT NULL,      -- when the source said so
	rank        BIGINT NOT NULL,
	noted_at    BIGINT NOT NULL,      -- when it was recorded
	PRIMARY KEY (account, external_id, return_id),
	FOREIGN KEY (offer, account) REFERENCES accounts (offer, account)
);

CREATE INDEX returns_unmet ON returns (account, noted_at) WHERE receipt_id IS NULL;

INSERT INTO returns
	SELECT offer, account, external_id, 'refunded', id, 'refund_total', refunded, TRUE, TRUE, 0, 0, updated_at
	FROM receipts WHERE refunded > 0;
INSERT INTO returns
	SELECT offer, account, external_id, 'reversed', id, 'reversal', 0, reversed, TRUE, reversed_at, 0, updated_at
	FROM receipts WHERE reversed_at > 0;
ALTER TABLE receipts DROP COLUMN reversed_at;
ALTER TABLE receipts DROP COLUMN reversed;

-- The highest of an operator's entries holds, and why it was made stands with the transition.
ALTER TABLE receipts ADD COLUMN revision BIGINT NOT NULL DEFAULT 0;
ALTER TABLE transitions ADD COLUMN note TEXT NOT NULL DEFAULT '';
-- What the amount was worth at the transition; NULL = unknown then.
ALTER TABLE transitions ADD COLUMN usd_cents BIGINT;
UPDATE transitions SET usd_cents = (SELECT usd_cents FROM receipts WHERE receipts.id = transitions.receipt_id);

CREATE INDEX receipts_asserted ON receipts (offer, account, id)
	WHERE evidence_level = 'asserted' AND state <> 'dropped';

-- How far each reader of the history has come, and which process reads for it.
CREATE TABLE sinks (
	offer       TEXT NOT NULL,
	name        TEXT NOT NULL,
	after_seq   BIGINT NOT NULL,
	owner       TEXT NOT NULL,
	lease_until BIGINT NOT NULL,
	PRIMARY KEY (offer, name)
);

-- What a number of satoshis was worth when it was asked for.
CREATE TABLE quotes (
	offer     TEXT NOT NULL,
	satoshis  BIGINT NOT NULL,
	at        BIGINT NOT NULL,
	usd_cents BIGINT NOT NULL CHECK (usd_cents >= 0),
	PRIMARY KEY (offer, satoshis, at)
);

CREATE INDEX quotes_oldest ON quotes (offer, at);
