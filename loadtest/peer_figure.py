"""The arithmetic of the comparison with other gateways: dated events, added time, the search for a rate; pure."""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from loadtest.http_lane import Told

SLOWEST_MS = 50.0
"""A rate is kept when the P99 of what is added to the first token is not more than this."""


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Half and 99% of the measurements are not above these (ms)."""

    p50: float
    p99: float
    samples: int


def spread(values: Sequence[float]) -> Spread:
    """Of some measurements in ms."""
    return Spread(p50=percentile(values, 0.5), p99=percentile(values, 0.99), samples=len(values))


def added(values: Sequence[float], direct: Sequence[float]) -> Spread:
    """By how much the percentiles are above those of the same without a gateway; never below nothing."""
    own, other = spread(values), spread(direct)
    p50, p99 = (max(0.0, mine - less) for mine, less in ((own.p50, other.p50), (own.p99, other.p99)))
    return Spread(p50=round(p50, 2), p99=round(p99, 2), samples=own.samples)


def data_of(told: Told) -> bytes:
    """The body without the framing of HTTP, if that had any."""
    return told.body if told.header("content-length") else b"".join(part for _, part in _parts(told.body))


def _parts(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """The pieces of a chunked body, each with the place in `raw` where it ends."""
    at = 0
    while (line := raw.find(b"\r\n", at)) >= 0:
        size = int(raw[at:line].partition(b";")[0], 16)
        if not size:
            return
        at = line + 2 + size + 2
        yield at - 2, raw[line + 2 : at - 2]


def texts(told: Told) -> list[tuple[float, str]]:
    """The text of each event of a streamed answer that has any, with the moment (monotonic s) its end was read."""
    parts = [(len(told.body), told.body)] if told.header("content-length") else list(_parts(told.body))
    data, ends, size = b"".join(part for _, part in parts), list[int](), 0
    for _, part in parts:
        ends.append(size := size + len(part))
    found, at = list[tuple[float, str]](), 0
    while (end := data.find(b"\n\n", at)) >= 0:
        if text := _text(data[at:end]):
            place = parts[bisect_left(ends, end)][0] if ends else 0
            found.append((_read_at(told, place), text))
        at = end + 2
    return found


def _text(raw: bytes) -> str:
    _, _, data = raw.partition(b"data:")
    if not data.strip().startswith(b"{"):
        return ""
    choices = msgspec.json.decode(data).get("choices") or [{}]
    return str((choices[0].get("delta") or {}).get("content") or "")


def _read_at(told: Told, place: int) -> float:
    sizes = [size for _, size in told.pieces]
    return told.pieces[min(bisect_left(sizes, place), len(sizes) - 1)][0]


def ages_ms(heard: Sequence[tuple[float, str]]) -> list[float]:
    """How old each token of a slow answer was when it was read: its text is the moment it was written."""
    return [(moment - float(word)) * 1000 for moment, text in heard for word in text.split()]


class Search:
    """Looks for the highest rate that is kept: doubles while it is, then halves the distance."""

    def __init__(self, first: float, steps: int) -> None:
        self.rate, self._left = first, steps
        self.kept, self._broken = 0.0, math.inf

    @property
    def over(self) -> bool:
        """Whether there is nothing more to try."""
        return self._left <= 0

    def tell(self, *, kept: bool) -> None:
        """Whether `rate` was kept; sets the next one."""
        self._left -= 1
        if kept:
            self.kept = self.rate
        else:
            self._broken = self.rate
        self.rate = 2 * self.kept if math.isinf(self._broken) else (self.kept + self._broken) / 2

    def as_json(self) -> dict[str, Any]:
        """What was found: the rate, and whether a higher one failed."""
        return {"per_s": round(self.kept, 1), "broke_at": None if math.isinf(self._broken) else round(self._broken, 1)}


class Row(msgspec.Struct, kw_only=True):
    """What was measured of one target: ms, MB, and why something was not. `hit` is asked of one that has the answer;
    `hits_asked` counts how often the model server was asked for it all the same. `miss_cpu_ms` and `hit_cpu_ms` are the
    processor time of one, of all its processes, in each block."""

    name: str
    what: str
    first: list[float] = []
    ages: list[float] = []
    hit: list[float] = []
    hits_asked: int = 0
    miss_cpu_ms: list[float] = []
    hit_cpu_ms: list[float] = []
    rate: dict[str, Any] = {}
    resident_mb: float = 0.0
    proportional_mb: float = 0.0
    failed: str = ""
    errors: int = 0


def figures(row: Row, direct: Row) -> dict[str, Any]:
    """The row as it is shown and stored."""
    made: dict[str, Any] = {"name": row.name, "what": row.what}
    if row.failed:
        return made | {"failed": row.failed}
    if row.first:
        made |= {"ttft_ms": spread(row.first), "added_ttft_ms": added(row.first, direct.first)}
    if row.ages:
        made |= {"chunk_ms": spread(row.ages), "added_chunk_ms": added(row.ages, direct.ages)}
    if row.hit:
        made |= {"hit_ms": spread(row.hit), "hits_that_asked_the_model": row.hits_asked}
    cpu = {name: min(found) for name in ("miss_cpu_ms", "hit_cpu_ms") if (found := getattr(row, name))}
    made |= {name: round(least, 2) for name, least in cpu.items()}
    sizes = {"resident_mb": round(row.resident_mb), "proportional_mb": round(row.proportional_mb)}
    return made | {"rate": row.rate, "errors": row.errors, **sizes}


COLUMNS = (
    ("", lambda row: row["name"]),
    ("added TTFT p50 / p99 ms", lambda row: _pair(row.get("added_ttft_ms"))),
    ("added per chunk p50 / p99 ms", lambda row: _pair(row.get("added_chunk_ms"))),
    (f"req/s at added P99 ≤ {SLOWEST_MS:g} ms", lambda row: f"{row['rate']['per_s']:g}" if row.get("rate") else "–"),
    ("exact hit p50 / p99 ms", lambda row: _hit(row)),
    ("processor ms of a miss / hit", lambda row: _costs(row)),
    ("memory MB (shared pages once)", lambda row: f"{row.get('resident_mb', 0)} ({row.get('proportional_mb', 0)})"),
)


def _pair(found: Spread | None) -> str:
    return "–" if found is None else f"{found.p50:.2f} / {found.p99:.2f}"


def _hit(row: dict[str, Any]) -> str:
    if "hit_ms" not in row:
        return "–"
    if row["hits_that_asked_the_model"] > row["hit_ms"].samples / 10:
        return "none: the model is asked"
    return _pair(row["hit_ms"])


def _costs(row: dict[str, Any]) -> str:
    return " / ".join(f"{row[name]:.2f}" if name in row else "–" for name in ("miss_cpu_ms", "hit_cpu_ms"))


def table(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The columns' names, and a row of cells for each target; one that did not run says why."""
    made = [[name for name, _ in COLUMNS]]
    for row in rows:
        if "failed" in row:
            made.append([row["name"], row["failed"], *["–"] * (len(COLUMNS) - 2)])
        else:
            made.append([cell(row) for _, cell in COLUMNS])
    return made


def behind(rows: Sequence[dict[str, Any]], ours: str, theirs: str) -> list[str]:
    """In which figures `ours` is not ahead of `theirs`, each with both."""
    own, other = (next(row for row in rows if row["name"] == name) for name in (ours, theirs))
    lower = [("added_ttft_ms", "p50"), ("added_ttft_ms", "p99"), ("added_chunk_ms", "p50"), ("added_chunk_ms", "p99")]
    worse = list[str]()
    for field, part in [*lower, ("hit_ms", "p50"), ("hit_ms", "p99")]:
        if field in own and field in other and getattr(own[field], part) > getattr(other[field], part):
            worse.append(f"{field} {part}: {getattr(own[field], part):.2f} against {getattr(other[field], part):.2f}")
    for name in ("miss_cpu_ms", "hit_cpu_ms"):
        if name in own and name in other and own[name] > other[name]:
            worse.append(f"{name}: {own[name]:.2f} against {other[name]:.2f}")
    if own["rate"] and other["rate"] and own["rate"]["per_s"] < other["rate"]["per_s"]:
        worse.append(f"req/s: {own['rate']['per_s']:g} against {other['rate']['per_s']:g}")
    if own["resident_mb"] > other["resident_mb"]:
        worse.append(f"memory: {own['resident_mb']} against {other['resident_mb']} MB")
    return worse
