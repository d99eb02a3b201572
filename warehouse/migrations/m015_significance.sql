-- Tie groups, the chance of being the best, both tests, what the study could have found, and the noise of replicates
-- apart from that of questions; NULL in leaderboards from before this was computed.
ALTER TABLE leaderboard ADD COLUMN p_bootstrap DOUBLE;
ALTER TABLE leaderboard ADD COLUMN p_permutation DOUBLE;
ALTER TABLE leaderboard ADD COLUMN detectable DOUBLE;
ALTER TABLE leaderboard ADD COLUMN questions_needed BIGINT;
ALTER TABLE leaderboard ADD COLUMN tie_group BIGINT;
ALTER TABLE leaderboard ADD COLUMN p_best DOUBLE;
ALTER TABLE leaderboard ADD COLUMN clusters BIGINT;
ALTER TABLE leaderboard ADD COLUMN question_sd DOUBLE;
ALTER TABLE leaderboard ADD COLUMN replicate_sd DOUBLE;
CREATE OR REPLACE VIEW current_leaderboard AS
    SELECT l.* EXCLUDE (artifact_id) FROM leaderboard l
    JOIN pointers p ON p.stage = 'leaderboard' AND p.key = l.study AND p.artifact_id = l.artifact_id;
