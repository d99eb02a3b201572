"""The study: its file, its sections, its cells, what is wrong with it, what it would cost."""
