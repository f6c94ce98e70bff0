-- A replica is believed only after a restore of it was compared with the database. Each row is such a comparison, and stays.

CREATE TABLE restore_proofs (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    made_at    INTEGER NOT NULL,       -- when it ended
    made_by    TEXT NOT NULL CHECK (made_by = 'comparison' OR made_by = 'drill' OR made_by = 'drill_kill'),
    outcome    TEXT NOT NULL CHECK (outcome = 'equal'       -- every row of every table
                                    OR outcome = 'behind'   -- an earlier state of the same history: the newest rows lack
                                    OR outcome = 'differs'
                                    OR outcome = 'damaged'),-- it does not restore
    replica    TEXT NOT NULL,          -- the URL of the prefix, without a query
    position   TEXT NOT NULL,          -- sixteen hexadecimal digits; '' where nothing was restored
    tables     INTEGER NOT NULL,       -- of the database
    rows       INTEGER NOT NULL,
    bytes      INTEGER NOT NULL,
    restore_ms INTEGER,                -- NULL where it is not known
    total_ms   INTEGER NOT NULL,
    lost_rows  INTEGER NOT NULL,       -- rows of the database that the restore lacks
    reason     TEXT,                   -- for people; NULL where all is well
    CHECK ((outcome = 'equal') = (reason IS NULL)),
    CHECK (outcome = 'behind' OR outcome = 'differs' OR lost_rows = 0)
) STRICT;
