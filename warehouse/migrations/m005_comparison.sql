-- How each cell differs from the one that leads its table, and how many questions its generator dealt with;
-- NULL in leaderboards from before this was computed.
ALTER TABLE leaderboard ADD COLUMN leader VARCHAR;
ALTER TABLE leaderboard ADD COLUMN difference DOUBLE;
ALTER TABLE leaderboard ADD COLUMN difference_low DOUBLE;
ALTER TABLE leaderboard ADD COLUMN difference_high DOUBLE;
ALTER TABLE leaderboard ADD COLUMN p DOUBLE;
ALTER TABLE leaderboard ADD COLUMN tied BOOLEAN;
ALTER TABLE leaderboard ADD COLUMN answered DOUBLE;
CREATE OR REPLACE VIEW current_leaderboard AS
    SELECT l.* EXCLUDE (artifact_id) FROM leaderboard l
    JOIN pointers p ON p.stage = 'leaderboard' AND p.key = l.study AND p.artifact_id = l.artifact_id;
