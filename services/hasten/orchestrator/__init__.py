"""Hears chat requests, says accepted, chunks, notes and one end for each, and keeps only the live requests."""
