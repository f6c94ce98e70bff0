-- Whether events come in is known from those that came to the registered address, and from no others.

ALTER TABLE channel_watches ADD COLUMN heard_at INTEGER;    -- when one came, at least every ten seconds; NULL: none did
