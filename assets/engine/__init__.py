"""What turns a stage into stored artifacts and Dagster assets."""
