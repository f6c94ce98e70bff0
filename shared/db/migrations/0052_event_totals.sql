-- How many events of each type there ever were: sweep adds them up before it prunes them, so that a counter never falls.

CREATE TABLE event_totals (
    type   TEXT NOT NULL,      -- of the events
    name   TEXT NOT NULL,      -- of the channel for what a channel does, else of the agent; '' where the events name none
    number INTEGER NOT NULL,   -- of events up to the one in meta.events_counted
    UNIQUE (type, name)        -- beside the rowid, which tells the order in which the names came
) STRICT;

-- What happened before is not counted: to read ten million events would hold up the start. A rollback may have left a
-- number of an earlier upgrade.
INSERT OR REPLACE INTO meta (key, value) SELECT 'events_counted', CAST(ifnull(max(id), 0) AS TEXT) FROM events;
