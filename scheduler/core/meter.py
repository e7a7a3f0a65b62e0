"""What happened how often and took how long, counted as it happens, for `/metrics`."""

# One answer of 512 tokens holds a seat for about 33 s, and a request may wait for 600: upper bounds, seconds.
WAIT_BUCKETS = (0.1, 1.0, 5.0, 20.0, 60.0, 180.0, 600.0)
ANSWER_BUCKETS = (
    0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 600.0,
)  # fmt: skip
DECISION_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.627, 2.0)
LOAD_BUCKETS = (0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 600.0)
CANCEL_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 20.0, 600.0)
