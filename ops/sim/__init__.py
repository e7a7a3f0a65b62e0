"""`fairlane sim`: the scheduler's own core under a virtual clock, with modelled devices and lanes."""
