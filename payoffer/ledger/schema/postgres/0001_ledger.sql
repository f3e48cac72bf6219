-- The tables of schema/sqlite in the types of PostgreSQL. Money is counted in atomic units
-- (cents, 1e-6 USDC, satoshis), time in Unix seconds.

-- One row: the number of the last migration. The table's name marks the schema of a ledger.
CREATE TABLE pay_offer_schema (
	version INTEGER NOT NULL
);
INSERT INTO pay_offer_schema VALUES (0);

-- Where the money of one rail arrives. An account belongs to one offer for good.
CREATE TABLE accounts (
	account TEXT PRIMARY KEY,
	offer   TEXT NOT NULL,
	rail    TEXT NOT NULL,
	testnet BOOLEAN NOT NULL,
	origin  TEXT NOT NULL,            -- the rail's head at the first start; '' = not read yet
	UNIQUE (offer, account)
);

-- x402 authorizations that were, or are about to be, sent to a facilitator.
CREATE TABLE intents (
	id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	network      TEXT NOT NULL,
	asset        TEXT NOT NULL,
	payer        TEXT NOT NULL,
	nonce        TEXT NOT NULL,
	offer        TEXT NOT NULL,
	account      TEXT NOT NULL,
	rail         TEXT NOT NULL,
	testnet      BOOLEAN NOT NULL,
	own          BOOLEAN NOT NULL,
	amount       BIGINT NOT NULL CHECK (amount >= 0),
	usd_cents    BIGINT CHECK (usd_cents >= 0),
	payment_id   TEXT NOT NULL,
	fingerprint  TEXT NOT NULL,
	version      BIGINT NOT NULL,
	payload      BYTEA NOT NULL,
	requirement  BYTEA NOT NULL,
	facilitator  TEXT NOT NULL,
	valid_before BIGINT NOT NULL,
	state        TEXT NOT NULL,       -- settling | settled | refused
	reopened     BOOLEAN NOT NULL DEFAULT FALSE,
	owner        TEXT NOT NULL,
	lease_until  BIGINT NOT NULL,
	tx           TEXT NOT NULL,
	answer       BYTEA,
	reason       TEXT NOT NULL,
	evidence     TEXT NOT NULL,       -- '' | facilitator | chain
	created_at   BIGINT NOT NULL,
	updated_at   BIGINT NOT NULL,
	UNIQUE (network, asset, payer, nonce),
	FOREIGN KEY (offer, account) REFERENCES accounts (offer, account)
);

-- One open authorization per payer, on whatever chain. A reopened one is left out: that a settled transaction
-- left the chain must be recorded even while a later authorization is open.
CREATE UNIQUE INDEX intents_open ON intents (offer, payer)
	WHERE state = 'settling' AND NOT reopened;
CREATE INDEX intents_settling ON intents (offer, id) WHERE state = 'settling';
CREATE INDEX intents_unproven ON intents (offer, id) WHERE state = 'settled' AND evidence = 'facilitator';

-- The payment-identifier extension: the intent that holds an identifier of a payer.
CREATE TABLE payment_ids (
	payer      TEXT NOT NULL,
	payment_id TEXT NOT NULL,
	intent_id  BIGINT NOT NULL REFERENCES intents (id),
	PRIMARY KEY (payer, payment_id)
);

CREATE INDEX payment_ids_intent ON payment_ids (intent_id);

-- One row per money movement. state, reversed and reversed_at are the merged facts;
-- status and refunded_cents are derived from them and stored to be counted.
CREATE TABLE receipts (
	id             BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	offer          TEXT NOT NULL,
	account        TEXT NOT NULL,
	rail           TEXT NOT NULL,
	external_id    TEXT NOT NULL,
	tx             TEXT NOT NULL,
	via            TEXT NOT NULL,
	asset          TEXT NOT NULL,
	amount         BIGINT NOT NULL CHECK (amount >= 0),
	refunded       BIGINT NOT NULL CHECK (refunded >= 0),
	usd_cents      BIGINT CHECK (usd_cents >= 0),  -- NULL = unknown, never 0 by default
	refunded_cents BIGINT NOT NULL CHECK (refunded_cents >= 0),
	status         TEXT NOT NULL,     -- seen | confirmed | refunded | reversed | dropped
	state          TEXT NOT NULL,     -- seen | confirmed | dropped
	reversed       BOOLEAN NOT NULL,
	reversed_at    BIGINT NOT NULL,
	final          BOOLEAN NOT NULL,
	evidence_level TEXT NOT NULL,     -- asserted | signed | provider | chain | manual
	evidence       TEXT NOT NULL,
	payer          TEXT NOT NULL,
	own            BOOLEAN NOT NULL,
	testnet        BOOLEAN NOT NULL,
	intent_id      BIGINT UNIQUE REFERENCES intents (id),
	version        BIGINT NOT NULL CHECK (version >= 1),
	occurred_at    BIGINT NOT NULL,
	observed_at    BIGINT NOT NULL,
	updated_at     BIGINT NOT NULL,
	UNIQUE (account, external_id),
	FOREIGN KEY (offer, account) REFERENCES accounts (offer, account)
);

CREATE INDEX receipts_newest ON receipts (offer, id);
CREATE INDEX receipts_unfinal ON receipts (offer, account, id) WHERE NOT final;

-- Append-only history and outbox: seq is the order of commits.
CREATE TABLE transitions (
	seq         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	receipt_id  BIGINT NOT NULL REFERENCES receipts (id),
	offer       TEXT NOT NULL,
	version     BIGINT NOT NULL,
	from_status TEXT NOT NULL,        -- '' for the first
	to_status   TEXT NOT NULL,
	amount      BIGINT NOT NULL,
	refunded    BIGINT NOT NULL,
	cause       TEXT NOT NULL,
	at          BIGINT NOT NULL,
	UNIQUE (receipt_id, version)
);

CREATE INDEX transitions_offer ON transitions (offer, seq);

-- Sums over receipts, open intents and claims, kept in the transaction that changes them.
-- They are listed in the same order on every database.
CREATE TABLE totals (
	offer          TEXT NOT NULL,
	account        TEXT COLLATE "C" NOT NULL,
	rail           TEXT COLLATE "C" NOT NULL,
	status         TEXT COLLATE "C" NOT NULL,
	evidence_level TEXT COLLATE "C" NOT NULL,
	own            BOOLEAN NOT NULL,
	testnet        BOOLEAN NOT NULL,
	count          BIGINT NOT NULL,
	amount         BIGINT NOT NULL,
	refunded       BIGINT NOT NULL,
	usd_cents      BIGINT NOT NULL,
	refunded_cents BIGINT NOT NULL,
	unknown_usd    BIGINT NOT NULL,
	PRIMARY KEY (offer, account, rail, status, evidence_level, own, testnet)
);

-- How far an account was read, and how well that goes.
CREATE TABLE cursors (
	account  TEXT PRIMARY KEY,
	offer    TEXT NOT NULL,
	position TEXT NOT NULL,
	anchor   TEXT NOT NULL,
	ok_at    BIGINT NOT NULL,
	error    TEXT NOT NULL,
	FOREIGN KEY (offer, account) REFERENCES accounts (offer, account)
);
