"""Measurements on public data and under load; nothing here is needed to run hasten."""
