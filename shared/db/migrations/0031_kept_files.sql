-- How long the files of an agent's inboxes and outboxes are kept, and what they may hold. NULL: as the settings say.

ALTER TABLE agents ADD COLUMN file_retention_ms INTEGER CHECK (file_retention_ms >= 60000);
ALTER TABLE agents ADD COLUMN files_limit_mb INTEGER CHECK (files_limit_mb >= 1);
