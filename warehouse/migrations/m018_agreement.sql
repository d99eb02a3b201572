-- How far the annotators of a study agree, a row a measure: see annotation_schemas.AGREEMENT.
CREATE TABLE agreement (
    artifact_id VARCHAR, measure VARCHAR, rubric VARCHAR, criterion VARCHAR, annotator VARCHAR, other VARCHAR,
    "value" DOUBLE, low DOUBLE, high DOUBLE, n BIGINT, reason VARCHAR
);

-- A measure of agreement among annotators.
CREATE VIEW current_agreement AS
    SELECT p.key AS study, a.* EXCLUDE (artifact_id)
    FROM agreement a JOIN pointers p ON p.stage = 'annotations' AND p.artifact_id = a.artifact_id;
