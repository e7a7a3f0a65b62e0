"""Engines that are servers of their own: a child of this process, or a neighbour. See workers/ENGINES.md."""
