-- Which question of the study it is, where it is one of them word for word.
ALTER TABLE chat_turns ADD COLUMN question_id VARCHAR;

-- Which of two cells side by side answered better, blind; of each question the last vote.
CREATE TABLE chat_votes (
    vote_id VARCHAR, study VARCHAR, conversation_id VARCHAR, "number" BIGINT, "at" TIMESTAMPTZ,
    a VARCHAR, b VARCHAR, -- turns
    a_cell VARCHAR, b_cell VARCHAR, preferred VARCHAR -- a | b | tie
);
