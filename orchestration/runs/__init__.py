"""The walk over the stages of a study, which the command, the job of the UI and its schedule share."""
