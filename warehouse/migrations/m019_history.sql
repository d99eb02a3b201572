-- Which result each study had when, a row a change: see warehouse.history.HISTORY. The lines that it is made of
-- lie in `<home>/history/<study>.jsonl`; `details` is such a line.
CREATE TABLE history (
    study VARCHAR, "number" BIGINT, entry VARCHAR, since TIMESTAMPTZ, leaderboard VARCHAR, run VARCHAR,
    metric VARCHAR, leader VARCHAR, "value" DOUBLE, low DOUBLE, high DOUBLE, tied BIGINT, cells BIGINT,
    documents BIGINT, questions BIGINT, details VARCHAR,
    PRIMARY KEY (study, entry)
);
