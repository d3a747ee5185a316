"""router: hears route and models, listens to status and finished, keeps latency windows and worker states in memory."""
