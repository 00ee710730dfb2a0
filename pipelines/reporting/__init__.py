"""What people look at: the report of a warehouse, and the checks that alert somebody."""
