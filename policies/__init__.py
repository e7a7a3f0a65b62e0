"""What should happen: the routing policy, pure."""
