"""Statistics over a study's scores: means with intervals, ranks, significant differences."""
