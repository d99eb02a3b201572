-- What said that the documents do not say: no_passages | gate | min_score | model. Files that are in the tables
-- already are read again for it.
ALTER TABLE chat_turns ADD COLUMN declined VARCHAR;
UPDATE conversations SET changed_ns = NULL;

-- A question without a helpful answer.
-- why: declined, no_context, failed or thumbs_down
-- declined_by: no_passages: the search found none; gate: the scores are too low; min_score: no sentence is
--     similar enough; model: the model refused
CREATE OR REPLACE VIEW usage_unanswered AS
    SELECT t.study, t.conversation_id, t.turn_id, t."at", CAST(t."at" AS DATE) AS day, t.cell, t.question,
           CASE WHEN t.status = 'refused' THEN 'declined' WHEN t.status = 'no_context' THEN 'no_context'
                WHEN t.status <> 'ok' THEN 'failed' ELSE 'thumbs_down' END AS why,
           t.declined AS declined_by, t.status, t.reason, t.answer, f.thumbs,
           nullif(trim(f."comment"), '') AS "comment", coalesce(t.is_demo, FALSE) AS is_demo
    FROM chat_turns t
    LEFT JOIN chat_feedback f ON f.study = t.study AND f.conversation_id = t.conversation_id
        AND f.turn_id = t.turn_id AND (f.thumbs <> 0 OR trim(f."comment") <> '')
    WHERE t.status <> 'ok' OR f.thumbs = -1;

-- A vote of a blind comparison: one row from the side of each of the two cells.
-- rival: the other cell
-- outcome: won, lost or tie
-- number: of the question in its conversation
CREATE VIEW usage_votes AS
    SELECT v.study, v.conversation_id, v.vote_id, v."number", v."at", CAST(v."at" AS DATE) AS day,
           nullif(c.person, '') AS person, s.cell, s.rival,
           CASE WHEN v.preferred = 'tie' THEN 'tie' WHEN v.preferred = s.side THEN 'won' ELSE 'lost' END AS outcome,
           c.place IS NOT DISTINCT FROM 'demo' AS is_demo
    FROM chat_votes v LEFT JOIN conversations c USING (study, conversation_id),
    LATERAL (SELECT unnest(['a', 'b']) AS side, unnest([v.a_cell, v.b_cell]) AS cell,
                    unnest([v.b_cell, v.a_cell]) AS rival) s
    WHERE v.a_cell IS NOT NULL AND v.b_cell IS NOT NULL;

-- Seconds of a stage of an answer. A stage that failed has no row.
-- stage: search (with understanding the question), answer, or whole: as the user waited
CREATE OR REPLACE VIEW usage_latency AS
    SELECT t.study, t.turn_id, t."at", CAST(t."at" AS DATE) AS day, t.cell, s.stage, s.seconds, t.cached,
           coalesce(t.is_demo, FALSE) AS is_demo
    FROM chat_turns t,
    LATERAL (SELECT unnest(['search', 'answer', 'whole']) AS stage,
                    unnest([t.search_seconds, t.answer_seconds, t.seconds]) AS seconds) s
    WHERE s.seconds IS NOT NULL;

-- A call of a model in a run, or an answer of a conversation.
-- used_by: chat: a conversation; study: a run. Calls of `assay ask` and `assay serve` are not included
-- usd: what was paid; 0 for cached calls and for models on this machine, NULL if the price is not known
CREATE OR REPLACE VIEW usage_models AS
    SELECT 'chat' AS used_by, study, "at", CAST("at" AS DATE) AS day, cell, 'answers' AS purpose,
           coalesce(model, CASE WHEN status NOT IN ('ok', 'refused', 'no_context') THEN '(none answered)'
                                ELSE '(no language model)' END) AS model,
           prompt_tokens, completion_tokens, coalesce(cached, FALSE) AS cached,
           CASE WHEN cached THEN 0.0 ELSE usd END AS usd, coalesce(is_demo, FALSE) AS is_demo
    FROM chat_turns
    WHERE model IS NOT NULL OR prompt_tokens IS NOT NULL OR status NOT IN ('ok', 'refused', 'no_context')
    UNION ALL
    SELECT 'study', study, created_at, CAST(created_at AS DATE), cell, purpose, model, prompt_tokens,
           completion_tokens, FALSE, usd, FALSE
    FROM llm_calls WHERE question IS DISTINCT FROM 'asked';

-- Retrieval score of the passages of an answer. NULL: no passage, or no confidence.
-- top_score: on the retriever's own scale: compare a cell with itself only
CREATE OR REPLACE VIEW usage_scores AS
    SELECT t.study, t.turn_id, t."at", CAST(t."at" AS DATE) AS day, t.cell, p.top_score,
           coalesce(p.passages, 0) AS passages, t.confidence,
           CASE WHEN t.status = 'ok' THEN 'answered' WHEN t.status IN ('refused', 'no_context') THEN 'declined'
                ELSE 'failed' END AS outcome,
           coalesce(t.is_demo, FALSE) AS is_demo
    FROM chat_turns t
    LEFT JOIN (
        SELECT study, conversation_id, turn_id, max(score) AS top_score, count(*) AS passages
        FROM chat_passages GROUP BY ALL
    ) p USING (study, conversation_id, turn_id);
