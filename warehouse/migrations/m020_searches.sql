-- What a search left out of a study, and by which values: see search_schemas.SEARCHES and SEARCH_VALUES.
CREATE TABLE searches (
    artifact_id VARCHAR, study VARCHAR, "method" VARCHAR, cell VARCHAR, chunking VARCHAR, embedder VARCHAR,
    retriever VARCHAR, generator VARCHAR, "rule" VARCHAR, reason VARCHAR, metric VARCHAR, rung BIGINT, rungs BIGINT,
    asked BIGINT, questions BIGINT, leader VARCHAR, n BIGINT, difference DOUBLE, low DOUBLE, high DOUBLE,
    p DOUBLE, "level" DOUBLE
);

CREATE TABLE search_values (
    artifact_id VARCHAR, cell VARCHAR, question_id VARCHAR, rung BIGINT, "value" DOUBLE
);

-- A cell of a search, and when and why it was dropped.
CREATE VIEW current_searches AS
    SELECT s.* EXCLUDE (artifact_id)
    FROM searches s JOIN pointers p ON p.stage = 'searches' AND p.artifact_id = s.artifact_id;

-- Value of a question in a cell of a search.
CREATE VIEW current_search_values AS
    SELECT p.key AS study, v.* EXCLUDE (artifact_id)
    FROM search_values v JOIN pointers p ON p.stage = 'searches' AND p.artifact_id = v.artifact_id;
