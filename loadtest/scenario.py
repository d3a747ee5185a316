"""What a run asks and of whom, from a TOML file; a wrong value is one sentence that names the file and the field."""

import difflib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from hasten.models import model_table
from hasten.runtime import STAGES, check
from hasten.settings import SettingsError, plain

Positive = Annotated[float, msgspec.Meta(gt=0)]
NotNegative = Annotated[float, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
SERVICES = tuple(name for stage in STAGES for name in stage)
_MADE = ("poisson", "steady")


class ScenarioError(SettingsError):
    """A scenario that cannot be run; its text says which file, which field and why."""


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file; a field that does not exist is refused."""


class Arrivals(_Section, frozen=True, kw_only=True):
    """When requests come. `kind` is poisson or steady (`rate` a second) or a recorded trace, azure or mooncake, whose
    rows bring their own lengths: `file` is looked for in the folder `--data`, `start_s` is where in it to begin and
    `speed` how much faster than recorded it is replayed. Each for `seconds`, of the run and not of the recording."""

    kind: Literal["poisson", "steady", "azure", "mooncake"] = "poisson"
    rate: Positive = 5.0
    seconds: Positive = 20.0
    file: str = ""
    start_s: NotNegative = 0.0
    speed: Positive = 1.0


class Prompts(_Section, frozen=True, kw_only=True):
    """What is asked where no trace says it.

    `source` is made (numbered questions of `words` words), list (`texts`), or a data set in the folder `--data`
    (banking77 or clinc150). A share `repeated` of the requests draw one of `distinct` questions, by Zipf's law with
    this exponent; the others ask what nobody has asked before. `system` begins every prompt, and `body` has any other
    field of a chat request.
    """

    source: Literal["made", "list", "banking77", "clinc150"] = "made"
    texts: list[str] = []
    words: Count = 12
    repeated: Share = 0.0
    distinct: Count = 100
    zipf: NotNegative = 1.0
    system: str = ""
    body: dict[str, Any] = {}


class Bound(_Section, frozen=True, kw_only=True):
    """A bound of the tail, for which the highest rate is looked for that keeps it: the first token of at least `share`
    of all requests comes within `ttft_ms`, a failed one counting as too late. Rates are multiples of the scenario's,
    from `first` on, twice that, and so on to `most`; each is asked for `seconds`, and the highest good one is narrowed
    down in `steps`."""

    ttft_ms: Positive
    share: Share = 0.99
    seconds: Positive = 10.0
    first: Positive = 1.0
    most: Positive = 64.0
    steps: Annotated[int, msgspec.Meta(ge=0, le=10)] = 3


class Own(_Section, frozen=True, kw_only=True):
    """The system that is started when no other is named: each of `services` as a process of its own (`replicas` says of
    which there are several; of the worker so many for each model), by `config`, which is that of `hasten up`."""

    services: list[str] = msgspec.field(default_factory=lambda: list(SERVICES))
    replicas: dict[str, Count] = {}
    config: dict[str, Any] = {}


class Scenario(_Section, frozen=True, kw_only=True):
    """A run. `about` is the first line of its report: what is real and what is simulated.

    `via` is the bus or http. A request is given up after `deadline_s`. `warm` requests are asked first and not counted.
    The run is not valid when the generator itself began 1% of the requests more than `late_ms` after they were due.
    """

    about: str
    via: Literal["bus", "http"] = "bus"
    deadline_s: Positive = 60.0
    late_ms: Positive = 20.0
    warm: Annotated[int, msgspec.Meta(ge=0)] = 10
    arrivals: Arrivals = Arrivals()
    prompts: Prompts = Prompts()
    bound: Bound | None = None
    own: Own = Own()

    @property
    def recorded(self) -> bool:
        """Whether arrivals and lengths come from a trace."""
        return self.arrivals.kind not in _MADE


def load(path: Path) -> Scenario:
    """The scenario in a file; raises ScenarioError."""
    try:
        return read(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ScenarioError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path} is not valid TOML: {error}") from None
    except SettingsError as error:
        raise ScenarioError(f"{path}: {error}") from None


def read(given: Mapping[str, Any]) -> Scenario:
    """The scenario of these tables; raises SettingsError."""
    try:
        found = msgspec.convert(given, Scenario)
    except msgspec.ValidationError as error:
        raise SettingsError(_problem(error)) from None
    _check(found)
    return found


def _check(found: Scenario) -> None:
    """What the types cannot say."""
    arrivals, prompts = found.arrivals, found.prompts
    if found.recorded and not arrivals.file:
        raise SettingsError(f"arrivals.file: a {arrivals.kind} trace needs the name of its file in the folder --data")
    if not found.recorded and arrivals.file:
        raise SettingsError(f"arrivals.file: {arrivals.kind} arrivals have no file; kind is azure or mooncake for one")
    if found.bound is not None and found.bound.first > found.bound.most:
        raise SettingsError("bound.first: must be at most bound.most")
    if prompts.source == "list" and not prompts.texts:
        raise SettingsError("prompts.texts: give at least one text, or another source")
    for field in ("messages", "stream"):
        if field in prompts.body:
            raise SettingsError(f"prompts.body.{field}: is made here and cannot be set")
    for name in (*found.own.services, *found.own.replicas):
        if name not in SERVICES:
            raise SettingsError(f"own.services: there is no service {name}; there are {', '.join(SERVICES)}")
    if found.own.replicas.get("gateway", 1) > 1:
        raise SettingsError(
            "own.replicas.gateway: one gateway is asked; put a balancer before several and use --against"
        )
    if found.via == "http" and "gateway" not in found.own.services:
        raise SettingsError("own.services: via http needs the gateway")
    try:
        check(found.own.config, found.own.services)
        model_table(found.own.config)
    except SettingsError as error:
        raise SettingsError(f"own.config: {error}") from None


def _problem(error: msgspec.ValidationError) -> str:
    said = plain(error)
    if (unknown := re.search(r"there is no field `(\w+)`", said)) is None:
        return said
    kinds = (Arrivals, Prompts, Bound, Own) if ": " in said else (Scenario,)
    fields = sorted({field for kind in kinds for field in kind.__struct_fields__})
    near = difflib.get_close_matches(unknown[1], fields, n=1)
    return f"{said}; did you mean {near[0]}?" if near else said
