"""The llama-cpp scorer: a ModernBERT encoder in llama.cpp and a decision head in numpy."""
