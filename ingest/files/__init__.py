"""The files that messages come in: their compression and how messages are framed in them."""
