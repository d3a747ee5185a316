"""cache: hears lookups, puts and invalidations, says what it removed, keeps answers in Qdrant and in memory."""
