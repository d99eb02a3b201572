-- Rows are keyed by the identity of the artifact that they came from (`artifact_id`), never by a name.
-- `pointers` says which identity a readable key means now; rows of older identities stay and are not mixed in.
CREATE TABLE artifacts (
    stage VARCHAR, artifact_id VARCHAR, data_version VARCHAR, complete BOOLEAN, created_at VARCHAR,
    PRIMARY KEY (stage, artifact_id)
);
CREATE TABLE pointers (stage VARCHAR, key VARCHAR, artifact_id VARCHAR, PRIMARY KEY (stage, key));

CREATE TABLE questions (
    artifact_id VARCHAR, question_id VARCHAR, question_set VARCHAR, type VARCHAR, language VARCHAR, question VARCHAR,
    ground_truth VARCHAR, answerable BOOLEAN, needs VARCHAR, gold VARCHAR, time_from VARCHAR, time_to VARCHAR,
    evidence STRUCT(doc_id VARCHAR, url VARCHAR, quote VARCHAR, "start" BIGINT, "end" BIGINT, grade BIGINT, reason VARCHAR)[]
);
CREATE TABLE hits (
    artifact_id VARCHAR, question_id VARCHAR, rank BIGINT, chunk_id VARCHAR, doc_id VARCHAR, "start" BIGINT,
    "end" BIGINT, score DOUBLE
);
CREATE TABLE ranked (
    artifact_id VARCHAR, question_id VARCHAR, status VARCHAR, reason VARCHAR, seconds DOUBLE, n_hits BIGINT
);
CREATE TABLE answers (
    artifact_id VARCHAR, question_id VARCHAR, status VARCHAR, reason VARCHAR, answer VARCHAR, raw VARCHAR,
    chunk_ids VARCHAR[], seconds DOUBLE, prompt_tokens BIGINT, completion_tokens BIGINT, usd DOUBLE, cached BOOLEAN
);
CREATE TABLE scores (
    artifact_id VARCHAR, question_id VARCHAR, metric VARCHAR, status VARCHAR, value DOUBLE, reason VARCHAR
);
CREATE TABLE leaderboard (
    artifact_id VARCHAR, study VARCHAR, subset VARCHAR, cell VARCHAR, cell_id VARCHAR, chunking VARCHAR,
    embedder VARCHAR, retriever VARCHAR, generator VARCHAR, metric VARCHAR, value DOUBLE, n BIGINT, coverage DOUBLE,
    low DOUBLE, high DOUBLE, worst DOUBLE, best DOUBLE, rank BIGINT
);
CREATE TABLE llm_calls (
    call_id VARCHAR PRIMARY KEY, model VARCHAR, status VARCHAR, reason VARCHAR, request VARCHAR, response VARCHAR,
    prompt_tokens BIGINT, completion_tokens BIGINT, seconds DOUBLE, usd DOUBLE, created_at TIMESTAMPTZ
);
CREATE TABLE crawls (
    crawl_id VARCHAR PRIMARY KEY, source VARCHAR, started_at TIMESTAMPTZ, ended_at TIMESTAMPTZ, outcome VARCHAR,
    requests BIGINT, bytes BIGINT, new BIGINT, changed BIGINT, unchanged BIGINT, failed VARCHAR
);

-- A cell's key says its parts; its id is the identity of its answers.
CREATE VIEW cells AS
    SELECT key AS cell, artifact_id AS cell_id, split_part(key, '.', 1) AS study, split_part(key, '.', 2) AS chunking,
           split_part(key, '.', 3) AS embedder, split_part(key, '.', 4) AS retriever, split_part(key, '.', 5) AS generator
    FROM pointers WHERE stage = 'answers';

-- What the readable keys mean now.
CREATE VIEW current_leaderboard AS
    SELECT l.* EXCLUDE (artifact_id) FROM leaderboard l
    JOIN pointers p ON p.stage = 'leaderboard' AND p.key = l.study AND p.artifact_id = l.artifact_id;
CREATE VIEW current_scores AS
    SELECT p.key AS cell, s.* EXCLUDE (artifact_id) FROM scores s
    JOIN pointers p ON p.stage = 'scores' AND p.artifact_id = s.artifact_id;
CREATE VIEW current_answers AS
    SELECT p.key AS cell, a.* EXCLUDE (artifact_id) FROM answers a
    JOIN pointers p ON p.stage = 'answers' AND p.artifact_id = a.artifact_id;
-- A passage of a ranking.
CREATE VIEW current_hits AS
    SELECT p.key AS ranking, h.* EXCLUDE (artifact_id) FROM hits h
    JOIN pointers p ON p.stage = 'rankings' AND p.artifact_id = h.artifact_id;
