"""HTTP: OpenAI's endpoints in front of the bus."""
