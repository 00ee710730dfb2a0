"""A person taken out of every table: found, removed, and shown to be gone."""
