"""The `builtin` request classifier: a small linear model of our own, shipped inside the package."""
