"""What a source's DDL says, in four dialects, and what it means for a gold table."""
