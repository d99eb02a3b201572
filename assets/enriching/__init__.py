"""What is known of a chunk beside its text."""
