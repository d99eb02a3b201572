-- How often a cell was asked, and how far its replicates lie apart; NULL in leaderboards from before: once.
ALTER TABLE leaderboard ADD COLUMN replicates BIGINT;
ALTER TABLE leaderboard ADD COLUMN replicate_low DOUBLE;
ALTER TABLE leaderboard ADD COLUMN replicate_high DOUBLE;
CREATE OR REPLACE VIEW current_leaderboard AS
    SELECT l.* EXCLUDE (artifact_id) FROM leaderboard l
    JOIN pointers p ON p.stage = 'leaderboard' AND p.key = l.study AND p.artifact_id = l.artifact_id;

-- A cell of a study's last run, or a further replicate of it.
-- cell: of a replicate, that of its cell with a number behind it: `….generator.2`
CREATE OR REPLACE VIEW cells AS
    SELECT array_to_string(list_slice(string_split(key, '.'), 1, 5), '.') AS cell, artifact_id AS cell_id,
           split_part(key, '.', 1) AS study, split_part(key, '.', 2) AS chunking, split_part(key, '.', 3) AS embedder,
           split_part(key, '.', 4) AS retriever, split_part(key, '.', 5) AS generator,
           coalesce(try_cast(split_part(key, '.', 6) AS BIGINT), 1) AS replicate
    FROM pointers WHERE stage = 'answers';
-- Value of a metric for a question in a cell, or the status and reason of a missing one.
-- cell: study.chunking.embedder.retriever.generator
CREATE OR REPLACE VIEW current_scores AS
    SELECT array_to_string(list_slice(string_split(p.key, '.'), 1, 5), '.') AS cell,
           coalesce(try_cast(split_part(p.key, '.', 6) AS BIGINT), 1) AS replicate, s.* EXCLUDE (artifact_id)
    FROM scores s JOIN pointers p ON p.stage = 'scores' AND p.artifact_id = s.artifact_id;
CREATE OR REPLACE VIEW current_answers AS
    SELECT array_to_string(list_slice(string_split(p.key, '.'), 1, 5), '.') AS cell,
           coalesce(try_cast(split_part(p.key, '.', 6) AS BIGINT), 1) AS replicate, a.* EXCLUDE (artifact_id)
    FROM answers a JOIN pointers p ON p.stage = 'answers' AND p.artifact_id = a.artifact_id;
