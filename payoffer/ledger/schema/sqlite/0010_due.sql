-- What is due is asked for all offers at once.
CREATE INDEX intents_unproven_at ON intents (look_at) WHERE state = 'settled' AND evidence = 'facilitator';

-- What was sent to a facilitator is kept until nothing can be sent any more.
CREATE INDEX intents_payload ON intents (valid_before) WHERE length(payload) > 0;
