"""Generators: answer a question from passages, by quoting or by a language model."""
