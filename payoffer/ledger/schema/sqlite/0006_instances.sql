-- All of this is added beside what is there. On SQLite one process at a time has the ledger open, so that it keeps no oldest version.

-- The ids of the keys that instances of this ledger have: of the signing keys of a domain by its DID, and of the key of QR addresses.
CREATE TABLE instance_keys (
	name     TEXT NOT NULL,
	id       TEXT NOT NULL,
	noted_at INTEGER NOT NULL,
	PRIMARY KEY (name, id)
) STRICT;
