"""What people and programs read of a run: sentences, tables, progress, lines of JSON."""
