"""What the verbs of the command do, for a scheduler as for a person."""
