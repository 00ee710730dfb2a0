"""What a history of changes comes to: the rows of a table, key by key."""
