-- Where each piece of a question's evidence was lost on its way through a retriever; NULL: it was delivered.
CREATE TABLE losses (
    artifact_id VARCHAR, question_id VARCHAR, evidence BIGINT, url VARCHAR, lost_at VARCHAR, step VARCHAR,
    found_at BIGINT
);
-- Evidence that a ranking misses, and the first step that lost it.
CREATE VIEW current_losses AS
    SELECT p.key AS ranking, l.* EXCLUDE (artifact_id) FROM losses l
    JOIN pointers p ON p.stage = 'rankings' AND p.artifact_id = l.artifact_id;
-- When a question is asked (an ISO 8601 date or time), and what was said before it, oldest first.
ALTER TABLE questions ADD COLUMN asked_at VARCHAR;
ALTER TABLE questions ADD COLUMN conversation VARCHAR[];
