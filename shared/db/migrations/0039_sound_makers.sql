-- What makes text of the voice messages that an agent gets, and sound of what it says. NULL: as the environment says.

ALTER TABLE agents ADD COLUMN transcriber TEXT;
ALTER TABLE agents ADD COLUMN speaker TEXT;
