"""What uses the stored indexes: questions, rankings, answers, scores, leaderboards."""
