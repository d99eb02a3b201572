-- The panels of usage, each a query on a view of `migrations/m022_usage.sql`: its name, and what it shows.
-- <whose> stands for the filters of study and days, <chosen> for these and those of cell and demo data.
-- A `list` has a row for each question, document or person, of which a page shows the first.

-- panel totals
SELECT count(DISTINCT question_key) AS questions, count(*) AS answers,
       count(*) FILTER (outcome = 'answered') AS answered, count(*) FILTER (outcome = 'declined') AS declined,
       count(*) FILTER (outcome = 'failed') AS failed,
       count(DISTINCT (study, conversation_id)) AS conversations, count(DISTINCT person) AS people,
       count(DISTINCT (study, conversation_id)) FILTER (person IS NULL) AS nameless
FROM usage_questions WHERE <chosen>

-- panel questions
SELECT day, count(DISTINCT question_key) AS questions, count(*) FILTER (outcome = 'answered') AS answered,
       count(*) FILTER (outcome = 'declined') AS declined, count(*) FILTER (outcome = 'failed') AS failed
FROM usage_questions WHERE <chosen> GROUP BY day ORDER BY day

-- panel feedback
SELECT study, cell, up, rated - up AS down, up / nullif(rated, 0) AS share, wilson_low(up, rated) AS low,
       wilson_high(up, rated) AS high, sentences
FROM (
    SELECT study, cell, count(*) FILTER (thumbs = 1) AS up, count(*) FILTER (thumbs <> 0) AS rated,
           count("comment") AS sentences
    FROM usage_feedback WHERE <chosen> GROUP BY GROUPING SETS ((), (study, cell))
) ORDER BY cell NULLS FIRST, study

-- panel sentences list
SELECT "at", study, cell, CASE thumbs WHEN 1 THEN 'up' WHEN -1 THEN 'down' END AS thumb, "comment", question
FROM usage_feedback WHERE "comment" IS NOT NULL AND <chosen> ORDER BY "at" DESC, turn_id

-- panel votes
SELECT study, cell, rival, won, lost, ties, won / nullif(won + lost, 0) AS share,
       wilson_low(won, won + lost) AS low, wilson_high(won, won + lost) AS high
FROM (
    SELECT study, cell, rival, count(*) FILTER (outcome = 'won') AS won,
           count(*) FILTER (outcome = 'lost') AS lost, count(*) FILTER (outcome = 'tie') AS ties
    FROM usage_votes WHERE ($cell IS NOT NULL OR cell < rival) AND <chosen> GROUP BY study, cell, rival
) ORDER BY won + lost + ties DESC, study, cell, rival

-- panel latency
SELECT stage, count(*) AS n, quantile_cont(seconds, 0.5) AS p50, quantile_cont(seconds, 0.95) AS p95,
       max(seconds) AS longest
FROM usage_latency WHERE <chosen> GROUP BY stage
ORDER BY list_position(['search', 'answer', 'whole'], stage)

-- panel latency_days
SELECT day, count(*) AS n, quantile_cont(seconds, 0.5) AS p50, quantile_cont(seconds, 0.95) AS p95
FROM usage_latency WHERE stage = 'whole' AND <chosen> GROUP BY day ORDER BY day

-- panel models
SELECT used_by, purpose, model, count(*) AS calls, count(*) FILTER (cached) AS cached,
       sum(prompt_tokens)::BIGINT AS prompt_tokens, sum(completion_tokens)::BIGINT AS completion_tokens,
       sum(usd) AS usd, count(*) FILTER (usd IS NULL) AS unpriced
FROM usage_models WHERE <chosen> GROUP BY used_by, purpose, model
ORDER BY used_by, usd DESC NULLS LAST, calls DESC, model, purpose

-- panel scores
SELECT day, study, cell, count(*) AS n, median(top_score) AS top_score, median(confidence) AS confidence
FROM usage_scores WHERE cell IS NOT NULL AND <chosen> GROUP BY day, study, cell ORDER BY day, study, cell

-- panel leaders
SELECT study, since, "number", metric, cell AS leader, "value", low, high,
       greatest(tied - 1 - within_the_margin, 0) AS tied, within_the_margin, cells, questions
FROM usage_leaders JOIN (
  SELECT study, "number", len(list_filter(
    json_extract_string(details, '$.standing[*].within_margin'), lambda one: one = 'true'
  )) AS within_the_margin FROM history
) USING (study, "number") WHERE <whose> ORDER BY study, "number"

-- panel documents list
SELECT study, doc_id, arg_max(title, "at") AS title, arg_max(url, "at") AS url,
       count(*) FILTER (cited) AS cited, count(*) AS shown
FROM usage_documents WHERE <chosen> GROUP BY study, doc_id
ORDER BY cited DESC, shown DESC, study, doc_id

-- panel unanswered list
SELECT "at", study, cell, why, declined_by, question, reason, "comment", conversation_id
FROM usage_unanswered WHERE <chosen> ORDER BY "at" DESC, turn_id

-- panel hours
SELECT weekday, hour, count(DISTINCT question_key) AS questions
FROM usage_questions WHERE <chosen> GROUP BY weekday, hour ORDER BY weekday, hour

-- panel people list
SELECT person, count(DISTINCT (study, conversation_id)) AS conversations,
       count(DISTINCT question_key) AS questions, min("at") AS first, max("at") AS last
FROM usage_questions WHERE <chosen> GROUP BY person ORDER BY questions DESC, person
