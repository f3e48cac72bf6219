-- The nonce of the authorization (EIP-3009) that moved the money; '' where there was none.
ALTER TABLE receipts ADD COLUMN nonce TEXT NOT NULL DEFAULT '';
CREATE INDEX receipts_authorization ON receipts (account, payer, nonce) WHERE nonce <> '';

-- told_at is when the first 200 that names a charge was written, 0 while none was; doubt says that its buyer had to wait
-- for it. turned_until is the latest end of the payer's other authorizations that were turned away because of this one.
ALTER TABLE intents ADD COLUMN doubt BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE intents ADD COLUMN told_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE intents ADD COLUMN turned_until BIGINT NOT NULL DEFAULT 0;
UPDATE intents SET told_at = updated_at WHERE state = 'settled';
UPDATE intents SET doubt = TRUE WHERE state = 'settling';
CREATE INDEX intents_payer ON intents (offer, payer, id);

-- Whatever may still change is looked at again at look_at.
ALTER TABLE intents ADD COLUMN look_at BIGINT NOT NULL DEFAULT 0;
DROP INDEX intents_unproven;
CREATE INDEX intents_unproven ON intents (offer, account, look_at) WHERE state = 'settled' AND evidence = 'facilitator';
CREATE INDEX intents_look ON intents (offer, account, look_at) WHERE state = 'settling';

-- A transaction that one payment names is claimed for no other.
CREATE INDEX intents_tx ON intents (network, tx) WHERE tx <> '';
