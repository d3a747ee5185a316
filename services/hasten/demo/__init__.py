"""Shows the main job on the real system: miss, exact hit, hit by meaning, near twin, ten at once, and a change."""
