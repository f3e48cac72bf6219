-- How well an account is read is known to its observer, and is not stored.
ALTER TABLE cursors DROP COLUMN error;
