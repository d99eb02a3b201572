"""The page of `assay leaderboard`: the studies of a home and their cells, as they are now."""
