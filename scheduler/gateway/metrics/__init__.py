"""`GET /metrics`: the table of all metrics, and the page made of one snapshot of the broker."""
