"""`gold._rejects`: changes that gold sets aside, each with its reason, and what becomes of them."""
