"""Who runs when: the core, the wire, the bus and the gateway."""
