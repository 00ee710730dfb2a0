"""Delta CDC Ingest: change messages of many wire formats, one change table, current gold tables."""
