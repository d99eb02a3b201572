-- Means of people's scores from few of them and many judgements: see annotation_schemas.HUMAN_ESTIMATES.
CREATE TABLE human_estimates (
    artifact_id VARCHAR, study VARCHAR, cell VARCHAR, rubric VARCHAR, criterion VARCHAR, metric VARCHAR,
    people DOUBLE, people_low DOUBLE, people_high DOUBLE,
    judged DOUBLE, judged_low DOUBLE, judged_high DOUBLE,
    combined DOUBLE, combined_low DOUBLE, combined_high DOUBLE,
    items BIGINT, labels BIGINT, judgements BIGINT, left_out BIGINT,
    share DOUBLE, saved DOUBLE, width DOUBLE, wanted DOUBLE, labels_needed BIGINT,
    leader VARCHAR, difference DOUBLE, difference_low DOUBLE, difference_high DOUBLE, reason VARCHAR
);

-- A mean of human ratings, of a judge, or of both combined.
CREATE VIEW current_human_estimates AS
    SELECT e.* EXCLUDE (artifact_id)
    FROM human_estimates e JOIN pointers p ON p.stage = 'human_estimates' AND p.artifact_id = e.artifact_id;
