"""Hears requests to compress; says the prompt that fits a token budget, as messages; keeps only tokenizers."""
