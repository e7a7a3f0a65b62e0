"""What the operator touches: the command, the supervisor, the benches."""
