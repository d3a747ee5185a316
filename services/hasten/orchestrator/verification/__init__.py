"""What is said of an answer once its text is there: which passages bear it out, and what the operator's checks find."""
