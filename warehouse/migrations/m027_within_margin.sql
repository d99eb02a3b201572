-- Cells that are shown to differ from the leader by less than the margin.
ALTER TABLE leaderboard ADD COLUMN within_margin BOOLEAN;
ALTER TABLE verdicts DROP COLUMN equivalent;
ALTER TABLE verdicts ADD COLUMN within_margin VARCHAR[];
-- Mean of a metric over the questions of a cell, an axis, a ranking or a judge.
-- leader: the cell that all others of the table are compared with
-- difference, difference_low, difference_high: mean of value less the leader's over the questions of both, and
--     the 95 % interval of this difference alone
-- p: of the permutation test, adjusted for the cells of the table
-- tied: not significantly different from the leader (p of 0.05 or more), or within the margin
-- within_margin: the difference is shown to be smaller than the margin, in the family of the table
-- p_best: chance of being best
-- expected_loss: expected loss against the leader on further documents
-- p_loss: chance of losing more than the margin
-- bound: lower bound of the mean less the best other one's, 95 % for all cells at once (Hsu)
-- tie_group: by the first metric: 1 holds the leader and its ties, 2 the best of the rest and its ties (Gupta,
--     Technometrics 1965)
-- detectable: the smallest true difference that the study would find four times out of five
-- questions_needed: how many questions would find the measured difference, if it is the true one
-- clusters: clusters of questions with a value
-- replicates: how often the cell answered each question
-- replicate_low, replicate_high: the smallest and the largest mean of a replicate
-- question_sd: standard deviation between questions
-- replicate_sd: standard deviation between replicates of one question
-- answered: share of the questions that the generator answered or refused
CREATE OR REPLACE VIEW current_leaderboard AS
    SELECT l.* EXCLUDE (artifact_id) FROM leaderboard l
    JOIN pointers p ON p.stage = 'leaderboard' AND p.key = l.study AND p.artifact_id = l.artifact_id;
-- The decision of a study: one row per study.
-- margin: a loss that does not matter, in the metric's unit
-- prefer: what decides among pipelines within half of the margin: cost, latency, simplicity or quality
-- context: tokens: compared in equally long contexts; passages: a metric at a number of passages ranks chunks of
--     different sizes, which favours long ones
-- generalises: whether there are six documents or more; fewer support no claim about other documents
-- leader: the cell with the best mean
-- recommended: the cell to use
-- tied: cells that are not significantly worse than the leader, or within the margin
-- within_margin: the tied cells that are shown to differ from the leader by less than the margin
-- worse: significantly worse cells that are not within the margin
-- unranked: cells below 98 % coverage
-- detectable: the smallest difference that the study would find four times out of five
-- documents_needed: about how many documents would settle half of the ties
-- sentences: the verdict in words, as `assay verdict` prints it
CREATE OR REPLACE VIEW current_verdict AS
    SELECT v.* EXCLUDE (artifact_id) FROM verdicts v
    JOIN pointers p ON p.stage = 'leaderboard' AND p.key = v.study AND p.artifact_id = v.artifact_id;
