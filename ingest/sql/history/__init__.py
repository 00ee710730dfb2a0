"""What silver has of the past, and how it compares: distinct changes, transactions, moments."""
