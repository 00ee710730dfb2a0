"""Values: JSON read exactly, the one canonical text of a value, and the types of sources."""
