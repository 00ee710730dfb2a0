"""The edge: reads, calls `ingest`, writes. Everything that needs a session or a disk is here."""
