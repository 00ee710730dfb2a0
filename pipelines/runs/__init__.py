"""`ingest run`: its passes, their stages, and what becomes of what fails."""
