-- What judges say, each replicate of a judge for itself: see schemas.JUDGEMENTS.
CREATE TABLE judgements (
    artifact_id VARCHAR, question_id VARCHAR, metric VARCHAR, replicate BIGINT, status VARCHAR, "value" DOUBLE,
    reason VARCHAR, raw VARCHAR,
    statements STRUCT("of" VARCHAR, "text" VARCHAR, verdict VARCHAR, "value" DOUBLE, reason VARCHAR)[],
    seconds DOUBLE, prompt_tokens BIGINT, completion_tokens BIGINT, usd DOUBLE, cached BOOLEAN, calls BIGINT,
    model VARCHAR, case_id VARCHAR
);

-- Judgement of an answer by a judge.
-- replicate: of the judge; the key of judgements is the cell's with `.by.JUDGE` behind it
CREATE VIEW current_judgements AS
    SELECT array_to_string(list_slice(string_split(p.key, '.'), 1, 5), '.') AS cell,
           coalesce(try_cast(split_part(p.key, '.', 6) AS BIGINT), 1) AS cell_replicate,
           split_part(p.key, '.', -1) AS judge, j.* EXCLUDE (artifact_id)
    FROM judgements j JOIN pointers p ON p.stage = 'judgements' AND p.artifact_id = j.artifact_id;
