"""The journey of every question: what each cell found, lost and answered, packed for a page."""
