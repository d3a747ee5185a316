"""One small interface to a vector store, and its adapters: Qdrant's engine in process, or a Qdrant server."""
