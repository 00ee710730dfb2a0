"""One table of all changes: decoded, placed, joined, counted."""
