"""The frame of the pictures in docs/: panels side by side in a file that is the same each time; needs matplotlib."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def picture(target: Path, panels: int, width: float, height: float) -> Iterator[list[Any]]:
    """So many empty panels (matplotlib's Axes) in a picture of this size (inches); it is written when they are drawn.

    Raises ImportError without matplotlib (the extra `dev`).
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams["svg.hashsalt"] = "hasten"
    figure, rows = pyplot.subplots(1, panels, figsize=(width, height), squeeze=False)
    yield list(rows[0])
    for panel in rows[0]:
        panel.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None} if target.suffix == ".svg" else None)
    pyplot.close(figure)
