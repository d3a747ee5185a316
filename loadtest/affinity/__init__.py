"""Measures the router's choice of workers on a trace of conversations: cached prompts and times to the first token."""
