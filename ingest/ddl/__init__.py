"""What a source's DDL says, in five dialects, and what it means for a gold table."""
