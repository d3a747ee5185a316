"""The live board: what it counts, to whom it shows what, and that neither time nor load makes it grow."""

import pytest

from hasten.board import FORGOTTEN_S, HEARD, LATEST, MOST_TENANTS, Board, View
from hasten.messages.attempt import Attempted
from hasten.messages.cache import Invalidated
from hasten.messages.chat import CacheSource, Finished, Usage
from hasten.messages.generate import Status
from hasten.tally import MOST_NAMES


class Story:
    """A board and the events that it is told, numbered as an orchestrator numbers them."""

    def __init__(self, now_s: float = 1000.0) -> None:
        self.board, self.now_s, self.seq = Board(now_s), now_s, 0

    def ended(
        self,
        cache: CacheSource = "miss",
        ttft_ms: float = 100.0,
        *,
        tenant: str = "acme",
        times: int = 1,
        outcome: str = "done",
        model: str = "small",
        reason: str = "",
        guard: str = "",
        tokens: int = 0,
    ) -> None:
        for _ in range(times):
            self.seq += 1
            event = Finished(
                source="o1",
                seq=self.seq,
                request_id=f"r{self.seq}",
                outcome=outcome,
                cache=cache,
                model=model,
                ttft_ms=ttft_ms,
                reason=reason,
                guard=guard,
                usage=Usage(completion_tokens=tokens),
            )
            self.board.hear(event, {"tenant": tenant}, self.now_s)

    def status(self, seq: int, *, worker: str = "w1", **fields: object) -> None:
        plain = {"started_ms": 1, "state": "ready", "engine": "sim", "model": "small", **fields}
        self.board.hear(Status(seq=seq, **plain), {"slug": "small", "worker": worker}, self.now_s)  # type: ignore[arg-type]

    def attempted(self, outcome: str, worker: str = "w1") -> None:
        event = Attempted(source="o1", seq=1, at_ms=0, flight="f", worker=worker, outcome=outcome)
        self.board.hear(event, {"slug": "small"}, self.now_s)

    def removed(self, tag: str, tenant: str = "acme", entries: int = 1) -> None:
        event = Invalidated(tags=[tag], entries=entries, reason="change", sequence=7)
        self.board.hear(event, {"tenant": tenant}, self.now_s)

    def view(self, tenant: str | None = None) -> View:
        return self.board.view(self.now_s, tenant)


@pytest.fixture
def story() -> Story:
    return Story()


def test_nothing_has_happened(story: Story) -> None:
    view = story.view()
    assert (view.figures.requests, view.figures.hit_rate, view.figures.ttft["all"].p99_ms) == (0, None, None)
    assert (view.workers, view.models, view.latest, view.queued) == ([], [], [], 0)
    assert len(view.moments) == 60


def test_hit_rates_by_kind_leave_failures_out(story: Story) -> None:
    story.ended("exact", times=3)
    story.ended("semantic", times=2)
    story.ended("shared")
    story.ended("miss", times=4)
    story.ended("miss", outcome="deadline", times=5)
    figures = story.view().figures
    assert figures.ended == {"exact": 3, "semantic": 2, "shared": 1, "miss": 4, "failed": 5}
    assert (figures.requests, figures.hit_rate, figures.failed) == (15, 0.5, {"deadline": 5})


def test_percentiles_are_within_one_per_cent_and_apart_by_source(story: Story) -> None:
    for ms in range(1, 1001):
        story.ended("miss", float(ms))
    story.ended("exact", 2.0, times=10)
    ttft = story.view().figures.ttft
    assert ttft["miss"].samples == 1000
    for found, exact in ((ttft["miss"].p50_ms, 500), (ttft["miss"].p95_ms, 950), (ttft["miss"].p99_ms, 990)):
        assert found == pytest.approx(exact, rel=0.0101)
    assert ttft["exact"].p99_ms == pytest.approx(2, rel=0.0101)
    assert ttft["all"].samples == 1010


def test_a_request_without_a_first_token_has_no_time(story: Story) -> None:
    story.ended("miss", 0.0)
    assert story.view().figures.ttft["all"].samples == 0


def test_rates_are_of_the_last_seconds(story: Story) -> None:
    story.now_s += 100
    story.ended(times=500, tokens=10)
    story.now_s += 60
    story.ended("exact", times=30, tokens=2)
    story.now_s += 4
    figures = story.view().figures
    assert 2 <= figures.per_s <= 7.5
    assert figures.tokens_per_s == pytest.approx(figures.per_s * 2, abs=0.1)
    assert (figures.requests, figures.saved_tokens) == (530, 60)


def test_the_window_slides(story: Story) -> None:
    story.ended("exact")
    story.now_s += 200
    story.ended("miss")
    assert story.view().figures.hit_rate == 0.5
    story.now_s += 150
    view = story.view()
    assert (view.figures.requests, view.figures.hit_rate) == (1, 0.0)
    assert sum(sum(moment.ended.values()) for moment in view.moments) == 1
    story.now_s += 400
    assert story.view().figures.requests == 0


def test_moments_are_in_order_and_hold_what_ended_in_them(story: Story) -> None:
    story.ended("exact", times=2)
    story.now_s += 10
    story.ended("miss")
    moments = story.view().moments
    assert [moment.age_s for moment in moments] == sorted((one.age_s for one in moments), reverse=True)
    assert [moment.ended for moment in moments if moment.ended] == [{"exact": 2}, {"miss": 1}]


def test_a_tenant_sees_its_own_and_nothing_of_others(story: Story) -> None:
    story.status(1, active=1, queued=3)
    story.ended("exact", tenant="acme", times=2)
    story.ended("miss", tenant="other", times=9)
    story.removed("prices:7", tenant="other")
    view = story.view("acme")
    assert (view.figures.requests, view.figures.hit_rate) == (2, 1.0)
    assert (view.workers, view.tenants, view.queued, view.active, view.lost, view.latest) == (None,) * 5 + ([],)
    assert [(row.name, row.ready, row.queued) for row in view.models] == [("small", 1, None)]
    assert story.view("stranger").figures.requests == 0


def test_an_operator_sees_all_tenants_and_each(story: Story) -> None:
    story.ended("exact", 5.0, tenant="acme", times=2)
    story.ended("miss", tenant="other", times=3)
    view = story.view()
    assert view.figures.requests == 5
    assert [(row.name, row.requests, row.hit_rate) for row in view.tenants or []] == [
        ("other", 3, 0.0),
        ("acme", 2, 1.0),
    ]


def test_workers_by_their_last_word(story: Story) -> None:
    story.status(2, active=2, queued=5, slots=2)
    story.status(1, active=0, queued=0)
    story.status(1, worker="w2", state="draining", active=1)
    view = story.view()
    assert [(row.name, row.state, row.active, row.queued) for row in view.workers or []] == [
        ("w1", "ready", 2, 5),
        ("w2", "draining", 1, 0),
    ]
    assert (view.queued, view.active, view.slots) == (5, 3, 3)
    assert [(row.ready, row.slots, row.queued) for row in view.models] == [(1, 2, 5)]


def test_a_worker_that_starts_again_counts_from_one(story: Story) -> None:
    story.status(90, queued=5)
    story.status(1, started_ms=2, queued=0)
    assert story.view().queued == 0


def test_a_silent_worker_is_gone_and_then_forgotten(story: Story) -> None:
    story.status(1, queued=4)
    story.now_s += 3
    view = story.view()
    assert [row.state for row in view.workers or []] == ["gone"]
    assert (view.queued, view.models[0].ready) == (0, 0)
    story.now_s += FORGOTTEN_S
    assert story.view().workers == []


def test_attempts_and_faults_of_a_worker(story: Story) -> None:
    story.attempted("done", "unheard-of")
    story.status(1)
    for outcome in ("done", "cancelled", "upstream", "done"):
        story.attempted(outcome)
    row = (story.view().workers or [])[0]
    assert (row.attempts, row.faults) == (4, 1)
    story.now_s += 500
    story.status(2)
    assert (story.view().workers or [])[0].attempts == 0


def test_a_model_has_the_times_of_what_it_generated(story: Story) -> None:
    story.status(1)
    story.ended("miss", 300.0, model="small", times=3)
    story.ended("exact", 1.0, model="small", times=30)
    ttft = story.view().models[0].ttft
    assert ttft.samples == 3
    assert ttft.p95_ms == pytest.approx(300, rel=0.0101)


def test_latest_invalidations_are_the_newest_first_and_few(story: Story) -> None:
    for number in range(LATEST + 5):
        story.removed(f"prices:{number}", entries=number)
        story.now_s += 1
    latest = story.view("acme").latest
    assert len(latest) == LATEST
    assert (latest[0].tags, latest[0].age_s, latest[0].entries) == ([f"prices:{LATEST + 4}"], 1.0, LATEST + 4)


def test_reasons_of_misses_name_the_guard(story: Story) -> None:
    story.ended("miss", reason="guard", guard="numbers", times=2)
    story.ended("miss", reason="absent")
    assert story.view().figures.missed == {"guard numbers": 2, "absent": 1}


def test_events_that_never_came_are_counted(story: Story) -> None:
    story.ended()
    story.seq += 4
    story.ended()
    assert story.view().lost == 4
    joined = Story()
    joined.seq = 1000
    joined.ended()
    assert joined.view().lost == 0


def test_neither_names_nor_tenants_make_it_grow(story: Story) -> None:
    for number in range(2000):
        story.ended("miss", tenant=f"t{number}", model=f"m{number}", reason=f"why{number}")
        story.ended(outcome=f"code{number}", tenant="loud")
    view = story.view()
    assert len(view.figures.missed) <= MOST_NAMES + 1
    assert len(view.figures.failed) <= MOST_NAMES + 1
    assert len(view.tenants or []) <= MOST_TENANTS
    assert view.figures.requests == 4000


def test_every_topic_names_whose_event_it_is() -> None:
    assert {topic.name: set(topic.tokens) for topic in HEARD} == {
        "finished": {"tenant"},
        "status": {"slug", "worker"},
        "invalidated": {"tenant"},
        "attempted": {"slug"},
    }
