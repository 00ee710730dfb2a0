"""The catalogue of a database: its tables as they are, and what a first configuration says of them.

Nothing is ever written to the database: every session is read-only.
"""
