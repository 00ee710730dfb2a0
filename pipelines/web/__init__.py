"""The review of schema changes in a browser."""
