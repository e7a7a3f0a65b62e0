"""`fairlane gpu`: programs of outside lanes, run while a device is held for them."""
