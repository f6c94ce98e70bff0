-- Limits of an agent's program, of its own. NULL: as the settings say.

ALTER TABLE agents ADD COLUMN idle_timeout_ms INTEGER CHECK (idle_timeout_ms >= 100);
ALTER TABLE agents ADD COLUMN tool_timeout_ms INTEGER CHECK (tool_timeout_ms >= 100);
ALTER TABLE agents ADD COLUMN output_limit_bytes INTEGER CHECK (output_limit_bytes >= 1024);
ALTER TABLE agents ADD COLUMN memory_limit_mb INTEGER CHECK (memory_limit_mb >= 16);
