-- An approver may give a budget more for the present day or month; the next one begins without it. And usage names the
-- messages that its turn answered, so that the story of a message says what it cost.

ALTER TABLE budgets ADD COLUMN extra INTEGER NOT NULL DEFAULT 0 CHECK (extra >= 0);   -- in the unit of the budget
ALTER TABLE budgets ADD COLUMN extra_of INTEGER;     -- the start of the period that it was given in

ALTER TABLE usage ADD COLUMN messages TEXT NOT NULL DEFAULT '[]'   -- the public ids of those that asked for the turn
    CHECK (messages = '[]' OR (json_valid(messages) AND json_type(messages) = 'array'));
CREATE INDEX usage_of_session ON usage (session, created_at);
