-- The statements of a journal. A line of two dashes, a colon and a name begins one; its text goes to the next such line.

-- :head
SELECT id, epoch, owner, expires, status,
    coalesce((SELECT max(seq) FROM records WHERE run = runs.id), base_seq)
FROM runs WHERE run_id = :run_id

-- :is_taken
SELECT 1 FROM runs WHERE run_id = :run_id

-- :heads
SELECT json_group_array(json_array(
    run_id, id, epoch, status, coalesce((SELECT max(seq) FROM records WHERE run = runs.id), base_seq)
))
FROM runs WHERE run_id IN (SELECT value FROM json_each(?))

-- :next_id
SELECT coalesce(max(id), 0) + 1 FROM runs

-- :add_runs
INSERT INTO runs (id, run_id, base_seq, agent, parent_run, parent_call, status, created, owner, epoch, expires) VALUES

-- :add_fork
INSERT INTO runs (
    run_id, base, base_seq, forked_from, forked_at, agent, parent_run, parent_call, status, created, owner, epoch, expires
)
SELECT :run_id, :base, :at, run_id, :at, agent, parent_run, parent_call, :status, :created, :owner, 1, :expires
FROM runs WHERE id = :source

-- :set_status
UPDATE runs SET status = ? WHERE id IN (SELECT value FROM json_each(?))

-- :set_expiry
UPDATE runs SET expires = ? WHERE id IN (SELECT value FROM json_each(?))

-- :set_lease
UPDATE runs SET owner = :owner, epoch = :epoch, expires = :expires WHERE id = :run

-- :release
UPDATE runs SET expires = 0 WHERE run_id = :run_id AND epoch = :epoch

-- :add_records
INSERT INTO records (run, seq, time, large, entry) VALUES

-- :has_blob
SELECT 1 FROM blobs WHERE hash = ?

-- :add_blob
INSERT INTO blobs (hash, data) VALUES (?, ?)

-- :add_piece
INSERT INTO pieces (run, seq, nth, position, hash) VALUES (?, ?, ?, ?, ?)

-- :lineage
WITH RECURSIVE lineage (id, base, base_seq) AS (
    SELECT id, base, base_seq FROM runs WHERE id = :run
    UNION ALL
    SELECT runs.id, runs.base, runs.base_seq FROM lineage JOIN runs ON runs.id = lineage.base
)
SELECT id, base_seq FROM lineage

-- :records
SELECT seq, time, large, entry FROM records WHERE run = ? AND seq > ? AND seq <= ? ORDER BY seq

-- :pieces
SELECT position, data FROM pieces LEFT JOIN blobs USING (hash) WHERE run = ? AND seq = ? ORDER BY nth

-- :info
SELECT run_id, agent, status, created, updated, last_seq, parent_run, parent_call, forked_from, forked_at,
    (SELECT owner FROM runs WHERE runs.id = listed_runs.id), (SELECT expires FROM runs WHERE runs.id = listed_runs.id)
FROM listed_runs WHERE run_id = :run_id

-- :list
SELECT run_id, agent, status, created, updated, last_seq, parent_run, parent_call, forked_from, forked_at,
    (SELECT owner FROM runs WHERE runs.id = listed_runs.id), (SELECT expires FROM runs WHERE runs.id = listed_runs.id)
FROM listed_runs WHERE {filters} ORDER BY created DESC, id DESC LIMIT :limit

-- :needed_by_forks
SELECT max(base_seq) FROM runs WHERE base = ?

-- :deleted_base
SELECT base.id FROM runs JOIN runs AS base ON base.id = runs.base WHERE runs.id = ? AND base.run_id IS NULL

-- :runs_inside
SELECT run_id, parent_run FROM runs WHERE run_id > :from AND run_id < :to AND parent_run IS NOT NULL

-- :hide_run
UPDATE runs SET run_id = NULL WHERE id = ?

-- :drop_run
DELETE FROM runs WHERE id = ?

-- :drop_records
DELETE FROM records WHERE run = :run AND seq > :after

-- :hashes
SELECT DISTINCT hash FROM pieces WHERE run = :run AND seq > :after

-- :drop_pieces
DELETE FROM pieces WHERE run = :run AND seq > :after

-- :drop_blob
DELETE FROM blobs WHERE hash = :hash AND NOT EXISTS (SELECT 1 FROM pieces WHERE pieces.hash = :hash)
