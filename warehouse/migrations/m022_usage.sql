-- What the page of `assay usage` shows, a view a panel (docs/app.md). A row is one answer, or one call of a
-- model: whoever reads a view counts, and keeps to a study, a cell or some days, as they like. Days and hours
-- are those of the session's time zone (`SET TimeZone = 'Europe/Berlin'`); `is_demo` rows are generated.

-- Wilson's interval of a share, here at 95 %: `hits` of `n`. NULL where there are none.
CREATE MACRO wilson_low(hits, n) AS CASE WHEN n > 0 THEN greatest(0.0, (
    hits / n + 1.920729410347062 / n
    - 1.959963984540054 * sqrt(hits / n * (1 - hits / n) / n + 0.960364705173531 / (n * n))
) / (1 + 3.841458820694124 / n)) END;
CREATE MACRO wilson_high(hits, n) AS CASE WHEN n > 0 THEN least(1.0, (
    hits / n + 1.920729410347062 / n
    + 1.959963984540054 * sqrt(hits / n * (1 - hits / n) / n + 0.960364705173531 / (n * n))
) / (1 + 3.841458820694124 / n)) END;

-- An answer of a cell to a question of a user.
-- question_key: one for both answers of a blind comparison
-- weekday: 1 is Monday
-- person: NULL if no name was given
-- side: a or b in a blind comparison
-- outcome: answered, declined (refused or no context) or failed
CREATE VIEW usage_questions AS
    SELECT t.study, t.conversation_id, t.conversation_id || '/' || t."number" AS question_key, t.turn_id, t."at",
           CAST(t."at" AS DATE) AS day, isodow(t."at") AS weekday, hour(t."at") AS hour, nullif(c.person, '') AS person,
           c.place, t.cell, t.side, t.question, t."language", t.status,
           CASE WHEN t.status = 'ok' THEN 'answered' WHEN t.status IN ('refused', 'no_context') THEN 'declined'
                ELSE 'failed' END AS outcome,
           t.reason, t.answer, coalesce(t.is_demo, FALSE) AS is_demo
    FROM chat_turns t LEFT JOIN conversations c USING (study, conversation_id);

-- An answer with a thumb or a comment; withdrawn ones are left out.
-- thumbs: 1 up, -1 down, 0 only a comment
-- said_at: when the feedback was given
CREATE VIEW usage_feedback AS
    SELECT q.study, q.conversation_id, q.turn_id, q."at", q.day, q.person, q.cell, q.question, q.answer, q.outcome,
           f.thumbs, nullif(trim(f."comment"), '') AS "comment", f."at" AS said_at, q.is_demo
    FROM usage_questions q JOIN chat_feedback f USING (study, conversation_id, turn_id)
    WHERE f.thumbs <> 0 OR trim(f."comment") <> '';

-- Seconds of an answer by stage: search (with understanding the question), answer, and whole, as a person
-- waited. A stage that failed has no row.
CREATE VIEW usage_latency AS
    SELECT q.study, q.turn_id, q."at", q.day, q.cell, s.stage, s.seconds, t.cached, q.is_demo
    FROM usage_questions q JOIN chat_turns t USING (study, conversation_id, turn_id),
    LATERAL (SELECT unnest(['search', 'answer', 'whole']) AS stage,
                    unnest([t.search_seconds, t.answer_seconds, t.seconds]) AS seconds) s
    WHERE s.seconds IS NOT NULL;

-- What models were asked and paid. `used_by` chat: an answer of a conversation; study: a call that a run paid. A
-- call of a question that was asked in the chat, by `assay ask` or by `serve` ('asked') is no run's. `usd`: what
-- was paid, 0 for what the cache had or this machine computed, NULL where the price is not known.
CREATE VIEW usage_models AS
    SELECT 'chat' AS used_by, q.study, q."at", q.day, q.cell, 'answers' AS purpose,
           coalesce(t.model, CASE WHEN q.outcome = 'failed' THEN '(none answered)' ELSE '(no language model)' END) AS model,
           t.prompt_tokens, t.completion_tokens, coalesce(t.cached, FALSE) AS cached,
           CASE WHEN t.cached THEN 0.0 ELSE t.usd END AS usd, q.is_demo
    FROM usage_questions q JOIN chat_turns t USING (study, conversation_id, turn_id)
    WHERE t.model IS NOT NULL OR t.prompt_tokens IS NOT NULL OR q.outcome = 'failed'
    UNION ALL
    SELECT 'study', study, created_at, CAST(created_at AS DATE), cell, purpose, model, prompt_tokens,
           completion_tokens, FALSE, usd, FALSE
    FROM llm_calls WHERE question IS DISTINCT FROM 'asked';

-- How well passages fitted a question: the score of the first, on the retriever's own scale, so that only the
-- answers of one cell can be compared; and what the answer's confidence was. NULL: no passage, no confidence.
CREATE VIEW usage_scores AS
    SELECT q.study, q.turn_id, q."at", q.day, q.cell, p.top_score, coalesce(p.passages, 0) AS passages, t.confidence,
           q.outcome, q.is_demo
    FROM usage_questions q JOIN chat_turns t USING (study, conversation_id, turn_id)
    LEFT JOIN (
        SELECT study, conversation_id, turn_id, max(score) AS top_score, count(*) AS passages
        FROM chat_passages GROUP BY ALL
    ) p USING (study, conversation_id, turn_id);

-- A result in a study's history, without demo data.
-- since: when the result was first seen
-- cell: the leader
-- tied: cells that were tied with it
-- cells, documents, questions: how many the result had
CREATE VIEW usage_leaders AS
    SELECT study, "number", since, CAST(since AS DATE) AS day, metric, leader AS cell, "value", low, high, tied, cells,
           documents, questions
    FROM history;

-- A document of the passages of an answer.
-- passages: how many of them are of this document
CREATE VIEW usage_documents AS
    SELECT q.study, q.turn_id, q."at", q.day, q.cell, p.doc_id, p.title, p.url, p.cited, p.passages, q.outcome, q.is_demo
    FROM usage_questions q
    JOIN (
        SELECT study, conversation_id, turn_id, doc_id, arg_min(title, "number") AS title,
               arg_min(url, "number") AS url, bool_or(cited) AS cited, count(*) AS passages
        FROM chat_passages GROUP BY ALL
    ) p USING (study, conversation_id, turn_id);

-- A question without an answer that helped: declined, without context, failed, or with a thumb down.
CREATE VIEW usage_unanswered AS
    SELECT q.study, q.conversation_id, q.turn_id, q."at", q.day, q.cell, q.question,
           CASE WHEN q.status = 'refused' THEN 'declined' WHEN q.status = 'no_context' THEN 'no_context'
                WHEN q.outcome = 'failed' THEN 'failed' ELSE 'thumbs_down' END AS why,
           q.status, q.reason, q.answer, f.thumbs, f."comment", q.is_demo
    FROM usage_questions q LEFT JOIN usage_feedback f USING (study, conversation_id, turn_id)
    WHERE q.outcome <> 'answered' OR f.thumbs = -1;
