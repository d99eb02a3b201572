-- What steps of understanding had to say of a question: a filter that was dropped, a model's output that was of
-- no use, where rules stood in for it.
CREATE TABLE notes (
    artifact_id VARCHAR, question_id VARCHAR, kind VARCHAR, question VARCHAR, status VARCHAR, reason VARCHAR,
    raw VARCHAR
);
-- What was understood of a question, or why that failed.
CREATE VIEW current_notes AS
    SELECT p.key AS ranking, n.* EXCLUDE (artifact_id) FROM notes n
    JOIN pointers p ON p.stage = 'rankings' AND p.artifact_id = n.artifact_id;
