"""Measures a running system against bare NATS and against the engine alone, in the same run and beside the budgets."""
