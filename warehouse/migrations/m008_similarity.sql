-- How similar a quote is to what stands at its place, 1 where it is there word for word; NULL in earlier rows.
ALTER TABLE questions ALTER evidence TYPE STRUCT(
    doc_id VARCHAR, url VARCHAR, quote VARCHAR, "start" BIGINT, "end" BIGINT, grade BIGINT, reason VARCHAR,
    similarity DOUBLE
)[];
