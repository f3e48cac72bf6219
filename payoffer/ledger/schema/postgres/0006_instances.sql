-- The changes of schema/sqlite in the types of PostgreSQL.
-- All of this is added beside what is there, so that an instance of the version before keeps reading and writing.

-- The oldest schema whose programs may still write. Migrations that only add leave it; one that takes something away raises it.
ALTER TABLE pay_offer_schema ADD COLUMN oldest INTEGER NOT NULL DEFAULT 5;

-- The ids of the keys that instances of this ledger have: of the signing keys of a domain by its DID, and of the key of QR addresses.
CREATE TABLE instance_keys (
	name     TEXT COLLATE "C" NOT NULL,
	id       TEXT COLLATE "C" NOT NULL,
	noted_at BIGINT NOT NULL,
	PRIMARY KEY (name, id)
);
