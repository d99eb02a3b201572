"""Whether one text follows from another: hypotheses, facts and tags."""
