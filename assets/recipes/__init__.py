"""The build half of a study file, typed; and what several studies build together."""
