-- What people say, as they said it, in the order of their files: see annotation_schemas.HUMAN_SCORES.
CREATE TABLE human_scores (
    "ordinal" BIGINT, score_id VARCHAR, study VARCHAR, annotator VARCHAR, item_id VARCHAR, rubric VARCHAR,
    rubric_version VARCHAR, criterion VARCHAR, "value" DOUBLE, status VARCHAR, "comment" VARCHAR,
    seconds DOUBLE, showing BIGINT, "position" BIGINT, queue_version VARCHAR, cell VARCHAR,
    question_id VARCHAR, scored_at TIMESTAMPTZ, place VARCHAR,
    PRIMARY KEY (study, annotator, score_id)
);

-- Of which files the rows of a study are: where it is the same, there is nothing new.
CREATE TABLE human_score_versions (study VARCHAR PRIMARY KEY, version VARCHAR);

-- What annotators say in the end: the last of the rows that say the same thing anew, unless it takes it back.
CREATE VIEW current_human_scores AS
    SELECT * EXCLUDE (later)
    FROM (
        SELECT *, row_number() OVER (
            PARTITION BY study, annotator, item_id, rubric, rubric_version, criterion, showing, cell, question_id
            ORDER BY "ordinal" DESC
        ) AS later
        FROM human_scores
    )
    WHERE later = 1 AND status <> 'withdrawn';

-- What it comes to, joined to the cells: see annotation_schemas.ANNOTATIONS.
CREATE TABLE annotations (
    artifact_id VARCHAR, cell VARCHAR, question_id VARCHAR, rubric VARCHAR, criterion VARCHAR, "value" DOUBLE,
    annotators BIGINT, low DOUBLE, high DOUBLE, skipped BIGINT, item_id VARCHAR, probability DOUBLE
);

-- A human rating of an answer of a study, or what annotators agreed on.
-- cell: key of the cell
-- cell_replicate: number of the replicate
CREATE VIEW current_annotations AS
    SELECT p.key AS study, array_to_string(list_slice(string_split(a.cell, '.'), 1, 5), '.') AS cell,
           coalesce(try_cast(split_part(a.cell, '.', 6) AS BIGINT), 1) AS cell_replicate,
           a.* EXCLUDE (artifact_id, cell)
    FROM annotations a JOIN pointers p ON p.stage = 'annotations' AND p.artifact_id = a.artifact_id;
