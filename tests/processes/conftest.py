"""A folder with the converted models, and a running `hasten up` in it."""

from up_rig import data, up

__all__ = ["data", "up"]
