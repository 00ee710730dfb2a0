"""How changes become rows, as SQL: those of a batch, of late keys, of all history."""
