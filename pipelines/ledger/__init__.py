"""Schema changes: entered, decided and carried out."""
