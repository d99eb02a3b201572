-- Conversations with corpora, as their files have them: see warehouse/conversation_records.py.
CREATE TABLE conversations (
    study VARCHAR, conversation_id VARCHAR, person VARCHAR, place VARCHAR, title VARCHAR, begun_at TIMESTAMPTZ,
    size BIGINT, changed_ns BIGINT, -- of the file that these rows are of
    PRIMARY KEY (study, conversation_id)
);

-- A question and what a cell answered. `is_demo`: made to show the pages, never asked by anybody.
CREATE TABLE chat_turns (
    turn_id VARCHAR, study VARCHAR, conversation_id VARCHAR, "number" BIGINT, "at" TIMESTAMPTZ, cell VARCHAR,
    side VARCHAR, question VARCHAR, "language" VARCHAR, asked_at VARCHAR, status VARCHAR, reason VARCHAR,
    answer VARCHAR, model VARCHAR, confidence DOUBLE, turns_left_out BIGINT, prompt_tokens BIGINT,
    completion_tokens BIGINT, usd DOUBLE, cached BOOLEAN, search_seconds DOUBLE, answer_seconds DOUBLE,
    seconds DOUBLE, is_demo BOOLEAN
);

CREATE TABLE chat_passages (
    turn_id VARCHAR, study VARCHAR, conversation_id VARCHAR, "number" BIGINT, chunk_id VARCHAR, doc_id VARCHAR,
    title VARCHAR, url VARCHAR, "date" VARCHAR, "page" BIGINT, "start" BIGINT, "end" BIGINT, score DOUBLE,
    cited BOOLEAN, text VARCHAR
);

CREATE TABLE chat_understood (
    turn_id VARCHAR, study VARCHAR, conversation_id VARCHAR, kind VARCHAR, text VARCHAR, "value" VARCHAR,
    removed BOOLEAN
);

CREATE TABLE chat_feedback (
    feedback_id VARCHAR, study VARCHAR, conversation_id VARCHAR, turn_id VARCHAR, "at" TIMESTAMPTZ,
    thumbs BIGINT, "comment" VARCHAR
);
