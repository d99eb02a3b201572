-- What a call was made for (task, study, key of what was built, question), how long it waited for its turn, and how
-- often it was tried again; NULL in calls from before this was kept.
ALTER TABLE llm_calls ADD COLUMN purpose VARCHAR;
ALTER TABLE llm_calls ADD COLUMN study VARCHAR;
ALTER TABLE llm_calls ADD COLUMN cell VARCHAR;
ALTER TABLE llm_calls ADD COLUMN question VARCHAR;
ALTER TABLE llm_calls ADD COLUMN queued DOUBLE;
ALTER TABLE llm_calls ADD COLUMN retries BIGINT;
