"""Queues of items for annotators: which items, in which order, how often; and their sheets."""
