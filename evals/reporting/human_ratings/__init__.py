"""What people said of a study's answers, as the report shows it."""
