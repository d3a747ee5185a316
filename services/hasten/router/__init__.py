"""router: hears route and models, listens to status, sent and attempted, keeps speeds and worker states in memory."""
