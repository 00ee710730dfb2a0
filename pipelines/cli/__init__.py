"""The command `ingest`."""
