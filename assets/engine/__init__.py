"""The engine: turns stages into stored artifacts and Dagster assets."""
