-- An agent that can't work is paused: its messages wait, and no attempt is counted. Without a row an agent works. A row
-- that is 'trying' lets it work too, and remembers what was told while it was paused, in case it fails in the same way.

ALTER TABLE agents ADD COLUMN resume_spoken INTEGER NOT NULL DEFAULT 0 CHECK (resume_spoken = 0 OR resume_spoken = 1);

CREATE TABLE agent_pauses (
    agent     TEXT PRIMARY KEY REFERENCES agents (id) ON DELETE CASCADE,
    state     TEXT NOT NULL CHECK (state = 'paused' OR state = 'trying'),
    code      TEXT NOT NULL
              CHECK (code = 'auth' OR code = 'quota' OR code = 'budget' OR code = 'bad_config' OR code = 'not_installed'
                     OR code = 'model_not_found' OR code = 'by_hand'),
    reason    TEXT NOT NULL,           -- for operators
    paused_by TEXT NOT NULL CHECK (paused_by = 'postroom' OR paused_by = 'operator'),
    since     INTEGER NOT NULL,
    until     INTEGER,                 -- the instant that ends it; NULL: an act
    check_at  INTEGER,                 -- when the provider is asked whether it can work again; NULL: never
    checks    INTEGER NOT NULL DEFAULT 0,
    tried_at  INTEGER,                 -- since when it is 'trying'
    CHECK ((state = 'trying') = (tried_at IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE agent_pause_notices (     -- who was told of a pause
    agent TEXT NOT NULL REFERENCES agent_pauses (agent) ON DELETE CASCADE,
    place TEXT NOT NULL,               -- a chat, or 'operator'
    PRIMARY KEY (agent, place)
) STRICT, WITHOUT ROWID;
