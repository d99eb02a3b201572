-- Who answered, what the answer cites, what of its context was cut, answered in parts or looked for again, and how
-- sure it is; NULL in answers from before this was kept.
ALTER TABLE answers ADD COLUMN model VARCHAR;
ALTER TABLE answers ADD COLUMN citations STRUCT(
    marker BIGINT, sentence BIGINT, chunk_id VARCHAR, doc_id VARCHAR, url VARCHAR, section VARCHAR[],
    "start" BIGINT, "end" BIGINT
)[];
ALTER TABLE answers ADD COLUMN cuts STRUCT(chunk_id VARCHAR, kept BIGINT)[];
ALTER TABLE answers ADD COLUMN bins STRUCT(
    text VARCHAR, chunk_ids VARCHAR[], status VARCHAR, reason VARCHAR, answer VARCHAR
)[];
ALTER TABLE answers ADD COLUMN attempts STRUCT(
    query VARCHAR, chunk_ids VARCHAR[], sufficient BOOLEAN, reason VARCHAR
)[];
ALTER TABLE answers ADD COLUMN confidence DOUBLE;
CREATE OR REPLACE VIEW current_answers AS
    SELECT array_to_string(list_slice(string_split(p.key, '.'), 1, 5), '.') AS cell,
           coalesce(try_cast(split_part(p.key, '.', 6) AS BIGINT), 1) AS replicate, a.* EXCLUDE (artifact_id)
    FROM answers a JOIN pointers p ON p.stage = 'answers' AND p.artifact_id = a.artifact_id;
