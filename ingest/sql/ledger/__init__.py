"""Schema changes: the ledger of them, and what silver and gold have of them."""
