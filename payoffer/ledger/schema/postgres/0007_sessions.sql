-- The changes of schema/sqlite in the types of PostgreSQL.

-- Finds a card payment by its checkout, which the evidence begins with: {"session":"cs_…". The text is compared as it stands, for
-- what is no JSON would stop a write, and its beginning alone, for long keys of an index do so, too.
CREATE INDEX receipts_session ON receipts (offer, substr(evidence, 1, 300) COLLATE "C") WHERE rail = 'card';
