"""SQL migrations of the database: named files, applied once in order, never edited."""
