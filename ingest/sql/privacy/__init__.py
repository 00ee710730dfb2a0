"""What the tables have of a person, and how it is taken out of them."""
