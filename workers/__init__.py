"""Doing it: the scorer, hrx and npu workers and their one session."""
