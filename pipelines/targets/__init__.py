"""What a gold target is: its table, its progress, and what feeds it."""
