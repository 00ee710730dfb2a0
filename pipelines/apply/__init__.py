"""One batch of changes of a source table, applied to its target."""
