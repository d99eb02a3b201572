"""The commands that do not run anything of a study, a module a subject."""
