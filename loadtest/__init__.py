"""Measures hasten on public data and under load; run from the checkout as `python -m loadtest.<name>`."""
