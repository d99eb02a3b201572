"""Two workers, Redis, PostgreSQL and an S3 server on this machine: what docs/dagster.md describes, run."""
