"""embedder: hears embed, turns texts into vectors in small batches off the event loop; keeps the exported model."""
