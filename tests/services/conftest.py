"""A replica of the cache, the store below it and a tenant who asks it."""

from cache_rig import acme, cache, vectors

__all__ = ["acme", "cache", "vectors"]
