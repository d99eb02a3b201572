"""SQL that brings an older database up to date: named files, applied once, in order, never edited."""
