"""Queues as sheets and tasks for other tools, and back: what people fill in there becomes their scores."""
