"""The page in Chromium, before real services, and `hasten up` with it."""

from cache_rig import acme, vectors
from page_rig import browser, devtools, face
from path_rig import rig
from up_rig import data, up

__all__ = ["acme", "browser", "data", "devtools", "face", "rig", "up", "vectors"]
