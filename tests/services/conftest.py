"""A replica of the cache, the store below it and a tenant who asks it, also through an orchestrator; and engines."""

from cache_rig import acme, cache, vectors
from engine_rig import engine, kind, slow
from path_rig import rig
from upstream import connect, upstream

__all__ = ["acme", "cache", "connect", "engine", "kind", "rig", "slow", "upstream", "vectors"]
