-- The tables of schema/sqlite in the types of PostgreSQL. Money is counted in atomic units
-- (cents, 1e-6 USDC, satoshis), time in Unix seconds.

-- One row: the number of the last schema file. The table's name marks the schema of a ledger.
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
	since   BIGINT NOT NULL DEFAULT 0, -- when the account was first watched, by this machine's clock, in Unix seconds
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
	-- Whether the payer of a charge had to wait for it, and when the first 200 that names it was written (0 = none was).
	doubt        BOOLEAN NOT NULL DEFAULT FALSE,
	told_at      BIGINT NOT NULL DEFAULT 0,
	-- The latest end of the payer's other authorizations that were rejected because of this one.
	turned_until BIGINT NOT NULL DEFAULT 0,
	-- When an intent that may still change is due.
	look_at      BIGINT NOT NULL DEFAULT 0,
	UNIQUE (network, asset, payer, nonce),
	FOREIGN KEY (offer, account) REFERENCES accounts (offer, account)
);

-- One open authorization per payer, on whatever chain. A reopened one is left out: that a settled transaction
-- left the chain must be recorded even while a later authorization is open.
CREATE UNIQUE INDEX intents_open ON intents (offer, payer)
	WHERE state = 'settling' AND NOT reopened;
CREATE INDEX intents_settling ON intents (offer, id) WHERE state = 'settling';
CREATE INDEX intents_unproven ON intents (offer, account, look_at) WHERE state = 'settled' AND evidence = 'facilitator';
CREATE INDEX intents_unproven_at ON intents (look_at) WHERE state = 'settled' AND evidence = 'facilitator'; -- of all offers at once
CREATE INDEX intents_look ON intents (offer, account, look_at) WHERE state = 'settling';
CREATE INDEX intents_payer ON intents (offer, payer, id);
-- A transaction that one payment names is claimed for no other.
CREATE INDEX intents_tx ON intents (network, tx) WHERE tx <> '';
-- What was sent to a facilitator is kept until nothing can be sent any more.
CREATE INDEX intents_payload ON intents (valid_before) WHERE length(payload) > 0;

-- Long values are stored as they are, because compressing them costs more than the rest of a payment.
ALTER TABLE intents ALTER COLUMN payload SET STORAGE EXTERNAL;
ALTER TABLE intents ALTER COLUMN requirement SET STORAGE EXTERNAL;
ALTER TABLE intents ALTER COLUMN answer SET STORAGE EXTERNAL;

-- The payment-identifier extension: the intent that holds an identifier of a payer.
CREATE TABLE payment_ids (
	payer      TEXT NOT NULL,
	payment_id TEXT NOT NULL,
	intent_id  BIGINT NOT NULL REFERENCES intents (id),
	PRIMARY KEY (payer, payment_id)
);

CREATE INDEX payment_ids_intent ON payment_ids (intent_id);

-- One row per money movement. status and refunded_cents are derived from state and returns, and stored to be counted.
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
	final          BOOLEAN NOT NULL,
	evidence_level TEXT NOT NULL,     -- signed | provider | chain | manual
	evidence       TEXT NOT NULL,
	payer          TEXT NOT NULL,
	own            BOOLEAN NOT NULL,
	testnet        BOOLEAN NOT NULL,
	intent_id      BIGINT UNIQUE REFERENCES intents (id),
	version        BIGINT NOT NULL CHECK (version >= 1),
	occurred_at    BIGINT NOT NULL,
	observed_at    BIGINT NOT NULL,
	updated_at     BIGINT NOT NULL,
	revision       BIGINT NOT NULL DEFAULT 0,   -- of an operator's entry: the highest is in force
	nonce          TEXT NOT NULL DEFAULT '',    -- of the authorization (EIP-3009) that moved the money; '' = none
	value_basis    TEXT NOT NULL DEFAULT '',    -- how the value in US dollars was fixed; '' = not known
	stated_cents   BIGINT,                      -- what the operator states while no source knows the value
	stated_at      BIGINT NOT NULL DEFAULT 0,
	UNIQUE (account, external_id),
	FOREIGN KEY (offer, account) REFERENCES accounts (offer, account)
);

CREATE INDEX receipts_newest ON receipts (offer, id);
CREATE INDEX receipts_unfinal ON receipts (offer, account, id) WHERE NOT final;
CREATE INDEX receipts_authorization ON receipts (account, payer, nonce) WHERE nonce <> '';
CREATE INDEX receipts_payer ON receipts (account, payer) WHERE payer <> '';
-- Finds a card payment by its checkout, which the evidence begins with: {"session":"cs_…". Only the beginning is compared,
-- as text, because an index refuses long keys, and JSON that cannot be read would stop a write.
CREATE INDEX receipts_session ON receipts (offer, substr(evidence, 1, 300) COLLATE "C") WHERE rail = 'card';

-- Append-only history and outbox: seq is the order of commits.
CREATE TABLE transitions (
	seq         BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
	receipt_id  BIGINT NOT NULL REFERENCES receipts (id),
	offer       TEXT NOT NULL,
	version     BIGINT NOT NULL,
	from_status TEXT NOT NULL,        -- '' for the first
	to_status   TEXT NOT NULL,
	amount      BIGINT NOT NULL,
	refunded    BIGINT NOT NULL,
	cause       TEXT NOT NULL,
	at          BIGINT NOT NULL,
	note        TEXT NOT NULL DEFAULT '',
	usd_cents   BIGINT,               -- what the amount was worth at the transition; NULL = unknown then
	-- With seq it names a transition also after an older copy of the ledger was restored.
	tag         BIGINT NOT NULL DEFAULT 0,
	-- The refund or dispute that the transition is about ('' = none), and when its money moved (0 = not dated).
	return_id   TEXT NOT NULL DEFAULT '',
	return_kind TEXT NOT NULL DEFAULT '',
	moved_at    BIGINT NOT NULL DEFAULT 0,
	-- What else was known of the receipt after the transition.
	asset          TEXT,
	evidence_level TEXT,
	own            BOOLEAN,
	testnet        BOOLEAN,
	occurred_at    BIGINT,
	UNIQUE (receipt_id, version)
);

CREATE INDEX transitions_offer ON transitions (offer, seq);

-- A transition waits for its number, below 0, until it is committed, so that payments do not wait for each other to have one.
CREATE SEQUENCE transitions_waiting;
CREATE INDEX transitions_unnumbered ON transitions (receipt_id, version) WHERE seq < 0;

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

-- How far an account was read.
CREATE TABLE cursors (
	account  TEXT PRIMARY KEY,
	offer    TEXT NOT NULL,
	position TEXT NOT NULL,
	anchor   TEXT NOT NULL,
	ok_at    BIGINT NOT NULL,
	FOREIGN KEY (offer, account) REFERENCES accounts (offer, account)
);

-- The sums of money in another currency than the account's own, which totals leaves out.
CREATE TABLE currency_totals (
	offer          TEXT NOT NULL,
	account        TEXT COLLATE "C" NOT NULL,
	rail           TEXT COLLATE "C" NOT NULL,
	currency       TEXT COLLATE "C" NOT NULL,
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
	PRIMARY KEY (offer, account, rail, currency, status, evidence_level, own, testnet)
);

-- What is still to be added to totals and currency_totals, and counts already. Without it payments would wait for each other's
-- rows of the sums.
CREATE TABLE total_changes (
	id             BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	offer          TEXT NOT NULL,
	account        TEXT COLLATE "C" NOT NULL,
	rail           TEXT COLLATE "C" NOT NULL,
	currency       TEXT COLLATE "C" NOT NULL,
	status         TEXT COLLATE "C" NOT NULL,
	evidence_level TEXT COLLATE "C" NOT NULL,
	own            BOOLEAN NOT NULL,
	testnet        BOOLEAN NOT NULL,
	count          BIGINT NOT NULL,
	amount         BIGINT NOT NULL,
	refunded       BIGINT NOT NULL,
	usd_cents      BIGINT NOT NULL,
	refunded_cents BIGINT NOT NULL,
	unknown_usd    BIGINT NOT NULL
);

-- What was refunded or disputed of a payment, as the latest notice of each refund or dispute says. It may be known before the
-- payment is: receipt_id is NULL until then, and it counts nowhere.
CREATE TABLE returns (
	offer       TEXT NOT NULL,
	account     TEXT NOT NULL,
	external_id TEXT NOT NULL,
	return_id   TEXT NOT NULL,
	receipt_id  BIGINT REFERENCES receipts (id),
	kind        TEXT NOT NULL,             -- refund | refund_total | reversal
	amount      BIGINT NOT NULL CHECK (amount >= 0),
	currency    TEXT NOT NULL DEFAULT '',  -- of the amount; '' = the payment's own
	gone        BOOLEAN NOT NULL,
	at          BIGINT NOT NULL,           -- when the source said so
	rank        BIGINT NOT NULL,
	noted_at    BIGINT NOT NULL,           -- when it was recorded
	PRIMARY KEY (account, external_id, return_id),
	FOREIGN KEY (offer, account) REFERENCES accounts (offer, account)
);

CREATE INDEX returns_unmet ON returns (account, noted_at) WHERE receipt_id IS NULL;

-- How far each reader of the history has come, and which process reads for it.
CREATE TABLE sinks (
	offer       TEXT NOT NULL,
	name        TEXT NOT NULL,
	after_seq   BIGINT NOT NULL,
	owner       TEXT NOT NULL,
	lease_until BIGINT NOT NULL,
	-- The Unix second since which the endpoint refuses the next transition, or 0.
	refused_since BIGINT NOT NULL DEFAULT 0,
	PRIMARY KEY (offer, name)
);

-- What a number of satoshis was worth when it was quoted.
CREATE TABLE quotes (
	offer     TEXT NOT NULL,
	satoshis  BIGINT NOT NULL,
	at        BIGINT NOT NULL,
	usd_cents BIGINT NOT NULL CHECK (usd_cents >= 0),
	PRIMARY KEY (offer, satoshis, at)
);

CREATE INDEX quotes_oldest ON quotes (offer, at);

-- Transfers that left an account.
CREATE TABLE outgoing (
	account     TEXT NOT NULL,
	external_id TEXT NOT NULL,
	offer       TEXT NOT NULL,
	tx          TEXT NOT NULL,
	payee       TEXT NOT NULL,
	asset       TEXT NOT NULL,
	amount      BIGINT NOT NULL CHECK (amount >= 0),
	occurred_at BIGINT NOT NULL,
	noted_at    BIGINT NOT NULL,
	PRIMARY KEY (account, external_id),
	FOREIGN KEY (offer, account) REFERENCES accounts (offer, account)
);

CREATE INDEX outgoing_newest ON outgoing (offer, noted_at);

-- The ids of the keys of this ledger's instances: of the signing keys of a domain by its DID, and of the key of QR addresses.
CREATE TABLE instance_keys (
	name     TEXT COLLATE "C" NOT NULL,
	id       TEXT COLLATE "C" NOT NULL,
	noted_at BIGINT NOT NULL,
	PRIMARY KEY (name, id)
);
