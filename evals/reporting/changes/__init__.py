"""What changed between two results of a study, or of two studies."""
