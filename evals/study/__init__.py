"""The study: its file and sections, its cells, checks of it, and what a run would cost."""
