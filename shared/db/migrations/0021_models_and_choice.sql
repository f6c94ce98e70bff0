-- The models that an agent may use instead of its own, where that one can't answer: names, in order, as JSON. And of an
-- agent whose provider is 'auto', which provider was chosen: it stays until an operator changes the provider.

ALTER TABLE agents ADD COLUMN models TEXT NOT NULL DEFAULT '[]' CHECK (json_type(models) = 'array');
ALTER TABLE agents ADD COLUMN chosen_provider TEXT CHECK (chosen_provider IS NULL OR provider = 'auto');
