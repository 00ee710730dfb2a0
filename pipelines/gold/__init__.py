"""Targets brought forward by what silver has and gold has not."""
