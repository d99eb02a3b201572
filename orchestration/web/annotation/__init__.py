"""The page on which people score a queue: what it shows, and what becomes of each key."""
