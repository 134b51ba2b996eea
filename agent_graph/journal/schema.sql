-- The tables of a journal, format 1. Every statement may be run again on a file that has them already.

CREATE TABLE IF NOT EXISTS runs (
    id          INTEGER PRIMARY KEY,
    run_id      TEXT UNIQUE,            -- NULL: deleted, its records are kept for the forks that need them
    base        INTEGER,                -- the run whose records up to base_seq are also this run's
    base_seq    INTEGER NOT NULL,       -- 0 where there is no base
    forked_from TEXT,                   -- the run named when it was forked, and where
    forked_at   INTEGER,
    agent       TEXT,
    parent_run  TEXT,                   -- the tool call it was started from
    parent_call TEXT,
    status      TEXT NOT NULL,          -- of the newest record
    created     REAL NOT NULL,
    owner       TEXT NOT NULL,          -- the lease
    epoch       INTEGER NOT NULL,
    expires     REAL NOT NULL
);

CREATE INDEX IF NOT EXISTS runs_by_base ON runs (base) WHERE base IS NOT NULL;
CREATE INDEX IF NOT EXISTS runs_by_age ON runs (created);
CREATE INDEX IF NOT EXISTS runs_by_status ON runs (status, created);
CREATE INDEX IF NOT EXISTS runs_by_agent ON runs (agent, created);

-- Rows are kept in the order of writing, not of (run, seq): runs that write at the same time share pages.
CREATE TABLE IF NOT EXISTS records (
    run   INTEGER NOT NULL,
    seq   INTEGER NOT NULL,
    time  REAL NOT NULL,
    large INTEGER NOT NULL,             -- 1: parts of the entry are in pieces
    entry BLOB NOT NULL,                -- versioned JSON
    PRIMARY KEY (run, seq)
);

-- A large value is kept once, under the SHA-256 of its JSON, however many entries hold it.
CREATE TABLE IF NOT EXISTS blobs (
    hash BLOB PRIMARY KEY,
    data BLOB NOT NULL
);

-- Where in an entry's JSON a large value was taken out: at this byte of what was left.
CREATE TABLE IF NOT EXISTS pieces (
    run      INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    position INTEGER NOT NULL,
    nth      INTEGER NOT NULL,
    hash     BLOB NOT NULL,
    PRIMARY KEY (run, seq, nth)
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS pieces_by_hash ON pieces (hash);

CREATE VIEW IF NOT EXISTS listed_runs AS
SELECT
    id,
    run_id,
    agent,
    status,
    created,
    coalesce((SELECT time FROM records WHERE run = runs.id ORDER BY seq DESC LIMIT 1), created) AS updated,
    coalesce((SELECT max(seq) FROM records WHERE run = runs.id), base_seq) AS last_seq,
    parent_run,
    parent_call,
    forked_from,
    forked_at
FROM runs
WHERE run_id IS NOT NULL;

PRAGMA application_id = 0x61676A6C;
PRAGMA user_version = 1;
