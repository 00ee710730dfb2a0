"""Counts for status and reports, and how long something waits."""
