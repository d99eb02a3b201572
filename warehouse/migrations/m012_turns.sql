-- How many turns of its conversation a model was not given; NULL in answers from before this was kept.
ALTER TABLE answers ADD COLUMN turns_left_out BIGINT;
-- Answer of a cell to a question, with its status, tokens, seconds and cost.
-- turns_left_out: turns of the conversation that the model was not given
CREATE OR REPLACE VIEW current_answers AS
    SELECT array_to_string(list_slice(string_split(p.key, '.'), 1, 5), '.') AS cell,
           coalesce(try_cast(split_part(p.key, '.', 6) AS BIGINT), 1) AS replicate, a.* EXCLUDE (artifact_id)
    FROM answers a JOIN pointers p ON p.stage = 'answers' AND p.artifact_id = a.artifact_id;
