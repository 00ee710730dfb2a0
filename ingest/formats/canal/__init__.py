"""Canal and CloudCanal, whose JSON differs by a few members."""
