-- The verdict: one row a study. The leaderboard says of each cell what it is expected to lose.
ALTER TABLE leaderboard DROP COLUMN p_bootstrap;
ALTER TABLE leaderboard DROP COLUMN p_permutation;
ALTER TABLE leaderboard ADD COLUMN expected_loss DOUBLE;
ALTER TABLE leaderboard ADD COLUMN p_loss DOUBLE;
ALTER TABLE leaderboard ADD COLUMN bound DOUBLE;
CREATE OR REPLACE VIEW current_leaderboard AS
    SELECT l.* EXCLUDE (artifact_id) FROM leaderboard l
    JOIN pointers p ON p.stage = 'leaderboard' AND p.key = l.study AND p.artifact_id = l.artifact_id;
CREATE TABLE verdicts (
    study VARCHAR, subset VARCHAR, metric VARCHAR, title VARCHAR, unit VARCHAR, higher_is_better BOOLEAN,
    "by" VARCHAR, context VARCHAR, margin DOUBLE, prefer VARCHAR,
    questions BIGINT, documents BIGINT, clusters_by VARCHAR, generalises BOOLEAN, cells BIGINT, coverage DOUBLE,
    leader STRUCT(cell VARCHAR, label VARCHAR, rank BIGINT, value DOUBLE, low DOUBLE, high DOUBLE, coverage DOUBLE, p_best DOUBLE,
        expected_loss DOUBLE, p_loss DOUBLE, bound DOUBLE, usd_per_1000 DOUBLE, seconds DOUBLE),
    recommended STRUCT(cell VARCHAR, label VARCHAR, rank BIGINT, value DOUBLE, low DOUBLE, high DOUBLE, coverage DOUBLE, p_best DOUBLE,
        expected_loss DOUBLE, p_loss DOUBLE, bound DOUBLE, usd_per_1000 DOUBLE, seconds DOUBLE),
    equivalent BOOLEAN, tied VARCHAR[], worse VARCHAR[], unranked VARCHAR[],
    detectable DOUBLE, documents_needed BIGINT, reason VARCHAR, sentences VARCHAR[],
    artifact_id VARCHAR
);
CREATE VIEW current_verdict AS
    SELECT v.* EXCLUDE (artifact_id) FROM verdicts v
    JOIN pointers p ON p.stage = 'leaderboard' AND p.key = v.study AND p.artifact_id = v.artifact_id;
