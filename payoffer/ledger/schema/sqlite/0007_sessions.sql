-- Finds a card payment by its checkout, which the evidence begins with: {"session":"cs_…". The text is compared as it stands, for
-- what is no JSON would stop a write.
CREATE INDEX receipts_session ON receipts (offer, substr(evidence, 1, 300)) WHERE rail = 'card';
