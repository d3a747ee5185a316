"""Reviews prompts as an operator wrote them: what is waste in them, and what keeps them from being computed once."""
