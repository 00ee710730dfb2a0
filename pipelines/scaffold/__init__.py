"""A first configuration, written from a sample of messages."""
