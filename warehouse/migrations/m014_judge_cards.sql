-- How far judges can be trusted, a row a measure: see schemas.JUDGE_CARDS.
CREATE TABLE judge_cards (
    artifact_id VARCHAR, study VARCHAR, judge VARCHAR, metric VARCHAR, measure VARCHAR, "slice" VARCHAR,
    "value" DOUBLE, low DOUBLE, high DOUBLE, n BIGINT, reason VARCHAR
);

-- A measure of a judge: parse rate, agreement, bias, cost.
CREATE VIEW current_judge_cards AS
    SELECT c.* EXCLUDE (artifact_id)
    FROM judge_cards c JOIN pointers p ON p.stage = 'judge_cards' AND p.artifact_id = c.artifact_id;
