"""Rules that read German and English questions without a model: dates, names, follow-ups, keywords."""
