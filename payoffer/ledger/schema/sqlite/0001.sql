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
	since   INTEGER NOT NULL DEFAULT 0, -- when the account was first watched, by this machine's clock, in Unix seconds
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
	-- Whether the payer got another answer first, and when the first 200 that names the charge was written (0 = none was).
	unacknowledged INTEGER NOT NULL DEFAULT 0,
	acknowledged_at      INTEGER NOT NULL DEFAULT 0,
	-- The latest end of the payer's other authorizations that were rejected because of this one.
	rejected_until INTEGER NOT NULL DEFAULT 0,
	-- When an intent that may still change is due.
	poll_at      INTEGER NOT NULL DEFAULT 0,
	-- The hex SHA-256 of what only the payer of the charged request knows; '' = nothing.
	secret       TEXT NOT NULL DEFAULT '',
	UNIQUE (network, asset, payer, nonce),
	FOREIGN KEY (offer, account) REFERENCES accounts (offer, account)
) STRICT;

-- One open authorization per payer, on whatever chain. A reopened one is left out: that a settled transaction
-- left the chain must be recorded even while a later authorization is open.
CREATE UNIQUE INDEX intents_open ON intents (offer, payer)
	WHERE state = 'settling' AND NOT reopened;
CREATE INDEX intents_settling ON intents (offer, id) WHERE state = 'settling';
CREATE INDEX intents_unproven ON intents (offer, account, poll_at) WHERE state = 'settled' AND evidence = 'facilitator';
CREATE INDEX intents_look ON intents (offer, account, poll_at) WHERE state = 'settling';
CREATE INDEX intents_payer ON intents (offer, payer, id);
-- A transaction that one payment names is claimed for no other.
CREATE INDEX intents_tx ON intents (network, tx) WHERE tx <> '';
CREATE UNIQUE INDEX intents_claimed ON intents (network, tx) WHERE tx <> '' AND state = 'settled' AND evidence = 'facilitator';
-- The payment-identifier extension: a payer's new intents have no identifier of one that was not refused.
CREATE INDEX intents_payment_id ON intents (payer, payment_id) WHERE payment_id <> '';
-- What was sent to a facilitator is kept until nothing can be sent any more.
CREATE INDEX intents_payload ON intents (valid_before) WHERE length(payload) > 0;

-- One row per money movement. status and refunded_cents are derived from state and returns, and stored to be counted.
CREATE TABLE receipts (
	id             INTEGER PRIMARY KEY AUTOINCREMENT,
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
	final          INTEGER NOT NULL,
	evidence_level TEXT NOT NULL,     -- signed | provider | chain | manual
	evidence       TEXT NOT NULL,
	payer          TEXT NOT NULL,
	own            INTEGER NOT NULL,
	testnet        INTEGER NOT NULL,
	intent_id      INTEGER UNIQUE REFERENCES intents (id),
	version        INTEGER NOT NULL CHECK (version >= 1),
	occurred_at    INTEGER NOT NULL,
	observed_at    INTEGER NOT NULL,
	updated_at     INTEGER NOT NULL,
	revision       INTEGER NOT NULL DEFAULT 0,   -- of an operator's entry: the highest is in force
	nonce          TEXT NOT NULL DEFAULT '',    -- of the authorization (EIP-3009) that moved the money; '' = none
	value_basis    TEXT NOT NULL DEFAULT '',    -- how the value in US dollars was fixed; '' = not known
	stated         TEXT NOT NULL DEFAULT '',    -- the value that the operator states while no source knows it, as "cents seconds"; '' = none
	UNIQUE (account, external_id),
	FOREIGN KEY (offer, account) REFERENCES accounts (offer, account)
) STRICT;

CREATE INDEX receipts_newest ON receipts (offer, id);
CREATE INDEX receipts_unfinal ON receipts (offer, account, id) WHERE NOT final;
CREATE INDEX receipts_authorization ON receipts (account, payer, nonce) WHERE nonce <> '';
CREATE INDEX receipts_payer ON receipts (account, payer) WHERE payer <> '';
-- Finds a card payment by its checkout, which the evidence begins with: {"session":"cs_…". Only the beginning is compared,
-- as text, because an index refuses long keys, and JSON that cannot be read would stop a write.
CREATE INDEX receipts_session ON receipts (offer, substr(evidence, 1, 300)) WHERE rail = 'card';

-- Append-only history and outbox: seq is the order of commits of an offer.
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
	note        TEXT NOT NULL DEFAULT '',
	usd_cents   INTEGER,               -- what the amount was worth at the transition; NULL = unknown then
	-- With seq it names a transition also after an older copy of the ledger was restored.
	tag         INTEGER NOT NULL DEFAULT 0,
	-- The refund or dispute that the transition is about ('' = none), and when its money moved (0 = not dated).
	return_id   TEXT NOT NULL DEFAULT '',
	return_kind TEXT NOT NULL DEFAULT '',
	moved_at    INTEGER NOT NULL DEFAULT 0,
	-- What else was known of the receipt after the transition.
	asset          TEXT NOT NULL,
	evidence_level TEXT NOT NULL,
	own            INTEGER NOT NULL,
	testnet        INTEGER NOT NULL,
	occurred_at    INTEGER NOT NULL,
	UNIQUE (receipt_id, version)
) STRICT;

CREATE INDEX transitions_offer ON transitions (offer, seq);

-- Sums over receipts and claims, kept in the transaction that changes them. Open intents are counted when they are read.
CREATE TABLE totals (
	offer          TEXT NOT NULL,
	account        TEXT NOT NULL,
	rail           TEXT NOT NULL,
	currency       TEXT NOT NULL, -- '' = the account's own
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

-- How far an account was read.
CREATE TABLE cursors (
	account   TEXT PRIMARY KEY,
	offer     TEXT NOT NULL,
	position  TEXT NOT NULL,
	anchor    TEXT NOT NULL,
	witnessed TEXT NOT NULL,
	ok_at     INTEGER NOT NULL,
	FOREIGN KEY (offer, account) REFERENCES accounts (offer, account)
) STRICT, WITHOUT ROWID;

-- What was refunded or disputed of a payment, as the latest notice of each refund or dispute says. It may be known before the
-- payment is: receipt_id is NULL until then, and it counts nowhere.
CREATE TABLE returns (
	offer       TEXT NOT NULL,
	account     TEXT NOT NULL,
	external_id TEXT NOT NULL,
	return_id   TEXT NOT NULL,
	receipt_id  INTEGER REFERENCES receipts (id),
	kind        TEXT NOT NULL,             -- refund | refund_total | reversal
	amount      INTEGER NOT NULL CHECK (amount >= 0),
	currency    TEXT NOT NULL DEFAULT '',  -- of the amount; '' = the payment's own
	gone        INTEGER NOT NULL,
	at          INTEGER NOT NULL,           -- when the source said so
	rank        INTEGER NOT NULL,
	recorded_at    INTEGER NOT NULL,           -- when it was recorded
	PRIMARY KEY (account, external_id, return_id),
	FOREIGN KEY (offer, account) REFERENCES accounts (offer, account)
) STRICT, WITHOUT ROWID;

CREATE INDEX returns_unmet ON returns (account, recorded_at) WHERE receipt_id IS NULL;

-- How far each reader of the history has come, and which process reads for it.
CREATE TABLE subscribers (
	offer       TEXT NOT NULL,
	name        TEXT NOT NULL,
	after_seq   INTEGER NOT NULL,
	owner       TEXT NOT NULL,
	lease_until INTEGER NOT NULL,
	-- The Unix second since which the endpoint refuses the next transition, or 0.
	refused_since INTEGER NOT NULL DEFAULT 0,
	PRIMARY KEY (offer, name)
) STRICT, WITHOUT ROWID;

-- What a number of satoshis was worth when it was quoted.
CREATE TABLE quotes (
	offer     TEXT NOT NULL,
	satoshis  INTEGER NOT NULL,
	at        INTEGER NOT NULL,
	usd_cents INTEGER NOT NULL CHECK (usd_cents >= 0),
	PRIMARY KEY (offer, satoshis, at)
) STRICT, WITHOUT ROWID;

CREATE INDEX quotes_oldest ON quotes (offer, at);

-- Payment requests that were made for one payer each. A hash is used once for good, by whatever offer.
CREATE TABLE invoices (
	hash       TEXT PRIMARY KEY,
	offer      TEXT NOT NULL,
	account    TEXT NOT NULL,
	rail       TEXT NOT NULL,
	request    TEXT NOT NULL,             -- '' = closed
	verify     TEXT NOT NULL,             -- '' = closed, or only the seller knows of a payment
	satoshis   INTEGER NOT NULL CHECK (satoshis > 0),
	usd_cents  INTEGER NOT NULL CHECK (usd_cents > 0),
	created_at INTEGER NOT NULL,
	expire_at  INTEGER NOT NULL,
	closed_at  INTEGER NOT NULL,         -- 0 = it may still be paid
	FOREIGN KEY (offer, account) REFERENCES accounts (offer, account)
) STRICT, WITHOUT ROWID;

CREATE INDEX invoices_open ON invoices (offer, account, created_at) WHERE verify <> '';

-- The prices of an offer in US cents, and from when on each was in force.
CREATE TABLE prices (
	offer     TEXT NOT NULL,
	since     INTEGER NOT NULL,
	usd_cents INTEGER NOT NULL CHECK (usd_cents > 0),
	PRIMARY KEY (offer, since)
) STRICT, WITHOUT ROWID;

-- The ids of the keys of this ledger's instances: of the signing keys of a domain by its DID, and of the key of QR addresses.
CREATE TABLE instance_keys (
	name     TEXT NOT NULL,
	id       TEXT NOT NULL,
	recorded_at INTEGER NOT NULL,
	PRIMARY KEY (name, id)
) STRICT;

-- The browsers in which a payment (its account, a space and its name) or a pass ("pass:" and its id) opens the gates
-- of an offer. The id of a browser is the code of the entry link by which it came, so that a code is used once.
CREATE TABLE entries (
	browser    TEXT PRIMARY KEY,
	offer      TEXT NOT NULL,
	payment    TEXT NOT NULL,
	entered_at INTEGER NOT NULL,             -- later than that of the payment's browsers before it
	ended      INTEGER NOT NULL DEFAULT 0 -- whether it was signed out
) STRICT, WITHOUT ROWID;

CREATE INDEX entries_payment ON entries (offer, payment, entered_at);

-- The operator's passes, which open the gates of an offer without a payment.
CREATE TABLE passes (
	id         TEXT PRIMARY KEY,
	offer      TEXT NOT NULL,
	note       TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	expires_at INTEGER NOT NULL,
	revoked_at INTEGER NOT NULL -- 0 = it was not revoked
) STRICT, WITHOUT ROWID;
