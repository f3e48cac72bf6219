-- Money is counted in atomic units (cents, 1e-6 USDC, satoshis), time in Unix seconds.
-- Enumerations carry no CHECK: SQLite cannot change one without rewriting its table,
-- and the package refuses unknown words before they get here.

-- Where the money of one rail arrives. An account belongs to one offer for good.
CREATE TABLE accounts (
	account TEXT PRIMARY KEY,
	offer   TEXT NOT NULL,
	rail    TEXT NOT NULL,
	testnet INTEGER NOT NULL,
	origin  TEXT NOT NULL,            -- the rail's head at the first start; '' = not read yet
	UNIQUE (offer, account)
) STRICT, WITHOUT ROWID;

-- x402 authorizations that were, or are about to be, sent to a facilitator.
CREATE TABLE intents (
	id           INTEGER PRIMARY KEY,
	network      TEXT NOT NULL,
	asset        TEXT NOT NULL,
	payer        TEXT NOT NULL,
	nonce        TEXT NOT NULL,
	offer        TEXT NOT NULL,
	account      TEXT NOT NULL,
	rail         TEXT NOT NULL,
	testnet      INTEGER NOT NULL,
	own          INTEGER NOT NULL,
	amount       INTEGER NOT NULL CHECK (amount >= 0),
	usd_cents    INTEGER CHECK (usd_cents >= 0),
	payment_id   TEXT NOT NULL,
	fingerprint  TEXT NOT NULL,
	version      INTEGER NOT NULL,
	payload      BLOB NOT NULL,
	requirement  BLOB NOT NULL,
	facilitator  TEXT NOT NULL,
	valid_before INTEGER NOT NULL,
	state        TEXT NOT NULL,       -- settling | settled | refused
	reopened     INTEGER NOT NULL DEFAULT 0,
	owner        TEXT NOT NULL,
	lease_until  INTEGER NOT NULL,
	tx           TEXT NOT NULL,
	answer       BLOB,
	reason       TEXT NOT NULL,
	evidence     TEXT NOT NULL,       -- '' | facilitator | chain
	created_at   INTEGER NOT NULL,
	updated_at   INTEGER NOT NULL,
	UNIQUE (network, asset, payer, nonce),
	FOREIGN KEY (offer, account) REFERENCES accounts (offer, account)
) STRICT;

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
	intent_id  INTEGER NOT NULL REFERENCES intents (id),
	PRIMARY KEY (payer, payment_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX payment_ids_intent ON payment_ids (intent_id);

-- One row per money movement. state, reversed and reversed_at are the merged facts;
-- status and refunded_cents are derived from them and stored to be counted.
CREATE TABLE receipts (
	id             INTEGER PRIMARY KEY,
	offer          TEXT NOT NULL,
	account        TEXT NOT NULL,
	rail           TEXT NOT NULL,
	external_id    TEXT NOT NULL,
	tx             TEXT NOT NULL,
	via            TEXT NOT NULL,
	asset          TEXT NOT NULL,
	amount         INTEGER NOT NULL CHECK (amount >= 0),
	refunded       INTEGER NOT NULL CHECK (refunded >= 0),
	usd_cents      INTEGER CHECK (usd_cents >= 0),  -- NULL = unknown, never 0 by default
	refunded_cents INTEGER NOT NULL CHECK (refunded_cents >= 0),
	status         TEXT NOT NULL,     -- seen | confirmed | refunded | reversed | dropped
	state          TEXT NOT NULL,     -- seen | confirmed | dropped
	reversed       INTEGER NOT NULL,
	reversed_at    INTEGER NOT NULL,
	final          INTEGER NOT NULL,
	evidence_level TEXT NOT NULL,     -- asserted | signed | provider | chain | manual
	evidence       TEXT NOT NULL,
	payer          TEXT NOT NULL,
	own            INTEGER NOT NULL,
	testnet        INTEGER NOT NULL,
	intent_id      INTEGER UNIQUE REFERENCES intents (id),
	version        INTEGER NOT NULL CHECK (version >= 1),
	occurred_at    INTEGER NOT NULL,
	observed_at    INTEGER NOT NULL,
	updated_at     INTEGER NOT NULL,
	UNIQUE (account, external_id),
	FOREIGN KEY (offer, account) REFERENCES accounts (offer, account)
) STRICT;

CREATE INDEX receipts_newest ON receipts (offer, id);
CREATE INDEX receipts_unfinal ON receipts (offer, account, id) WHERE NOT final;

-- Append-only history and outbox: seq is the order of commits.
CREATE TABLE transitions (
	seq         INTEGER PRIMARY KEY AUTOINCREMENT,
	receipt_id  INTEGER NOT NULL REFERENCES receipts (id),
	offer       TEXT NOT NULL,
	version     INTEGER NOT NULL,
	from_status TEXT NOT NULL,        -- '' for the first
	to_status   TEXT NOT NULL,
	amount      INTEGER NOT NULL,
	refunded    INTEGER NOT NULL,
	cause       TEXT NOT NULL,
	at          INTEGER NOT NULL,
	UNIQUE (receipt_id, version)
) STRICT;

CREATE INDEX transitions_offer ON transitions (offer, seq);

-- Sums over receipts, open intents and claims, kept in the transaction that changes them.
CREATE TABLE totals (
	offer          TEXT NOT NULL,
	account        TEXT NOT NULL,
	rail           TEXT NOT NULL,
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
	PRIMARY KEY (offer, account, rail, status, evidence_level, own, testnet)
) STRICT, WITHOUT ROWID;

-- How far an account was read, and how well that goes.
CREATE TABLE cursors (
	account  TEXT PRIMARY KEY,
	offer    TEXT NOT NULL,
	position TEXT NOT NULL,
	anchor   TEXT NOT NULL,
	ok_at    INTEGER NOT NULL,
	error    TEXT NOT NULL,
	FOREIGN KEY (offer, account) REFERENCES accounts (offer, account)
) STRICT, WITHOUT ROWID;
