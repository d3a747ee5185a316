"""Looks for a stale answer: random asks, puts, changes and invalidations while replicas are paused, cut off, killed and
started again, checked by a model that knows what every answer was made from."""
