"""From messages to rows of silver."""
