"""retriever: hears retrieve and the documents in HASTEN_CHANGES, says ingested, keeps chunks in the vector store."""
