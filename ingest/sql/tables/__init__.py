"""Tables themselves: how they are made, changed, kept small, and what is noted of them."""
