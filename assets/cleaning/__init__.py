"""From pages to documents: one file a kind of page."""
