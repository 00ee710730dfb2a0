"""What all stages stand on: the session, the warehouse and its tables, leases, Java and jars."""
