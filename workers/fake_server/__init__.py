"""A server that speaks what OpenAI-compatible servers speak, without a model, well or badly."""
