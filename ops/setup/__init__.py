"""Setting up: a virtual environment with everything locked, from a bare Python."""
