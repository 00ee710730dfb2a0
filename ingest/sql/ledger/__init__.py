"""The ledger of schema changes, and what silver and gold have of them."""
