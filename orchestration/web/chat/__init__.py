"""The page Chat: users ask a corpus, answered by the measured pipelines."""
