-- Latest human rating of each annotator, without withdrawn ones. Ratings of one cell leave the view with their
-- cell; those of an item stay for every cell that shows it.
CREATE OR REPLACE VIEW current_human_scores AS
    SELECT * EXCLUDE (later)
    FROM (
        SELECT *, row_number() OVER (
            PARTITION BY study, annotator, item_id, rubric, rubric_version, criterion, showing, cell, question_id
            ORDER BY "ordinal" DESC
        ) AS later
        FROM human_scores
    )
    WHERE later = 1 AND status <> 'withdrawn'
        AND (cell IS NULL OR cell IN (SELECT key FROM pointers WHERE stage IN ('answers', 'scores')));
