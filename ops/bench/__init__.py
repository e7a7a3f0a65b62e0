"""Measurements of this box, each as a ratio against a bare baseline in the same run."""
