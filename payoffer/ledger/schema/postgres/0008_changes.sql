-- The changes of schema/sqlite in the types of PostgreSQL.
-- All of this is added beside what is there, so that an instance of the version before keeps reading and writing.

-- What else was known of the receipt after the transition, so that a change can be told as one; NULL = written before this was kept.
ALTER TABLE transitions ADD COLUMN asset TEXT;
ALTER TABLE transitions ADD COLUMN evidence_level TEXT;
ALTER TABLE transitions ADD COLUMN own BOOLEAN;
ALTER TABLE transitions ADD COLUMN testnet BOOLEAN;
ALTER TABLE transitions ADD COLUMN occurred_at BIGINT;
