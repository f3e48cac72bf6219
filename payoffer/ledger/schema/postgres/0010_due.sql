-- The changes of schema/sqlite in the types of PostgreSQL.
-- All of this is added beside what is there, so that an instance of the version before keeps reading and writing.

-- What is due is asked for all offers at once.
CREATE INDEX intents_unproven_at ON intents (look_at) WHERE state = 'settled' AND evidence = 'facilitator';

-- What was sent to a facilitator is kept until nothing can be sent any more.
CREATE INDEX intents_payload ON intents (valid_before) WHERE length(payload) > 0;

-- Long values are stored beside their row as they are: to compress them costs more than a whole payment else, and each change of a
-- row would copy them.
ALTER TABLE intents ALTER COLUMN payload SET STORAGE EXTERNAL;
ALTER TABLE intents ALTER COLUMN requirement SET STORAGE EXTERNAL;
ALTER TABLE intents ALTER COLUMN answer SET STORAGE EXTERNAL;
