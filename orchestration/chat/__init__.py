"""Conversations with cells, of many people at once."""
