"""What users declare in YAML, as values, and every mistake in it with its line."""
