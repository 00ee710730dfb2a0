"""The texts of SQL and the columns that they name."""
