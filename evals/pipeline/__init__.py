"""What runs a study's parts together: the resources of a run."""
