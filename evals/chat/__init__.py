"""Conversations with a corpus: questions are answered by the pipeline that was measured, and kept."""
