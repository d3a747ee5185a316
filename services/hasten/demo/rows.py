"""What the demo expects of each step and what it saw; pure."""

import msgspec

from hasten.answered import Answered


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One question and what has to come back: from which sources, with which facts, and without which.

    `change` says that a document is changed just before.
    """

    name: str
    question: str
    sources: tuple[str, ...]
    facts: tuple[str, ...] = ()
    not_facts: tuple[str, ...] = ()
    callers: int = 1
    generations: int = 0
    change: bool = False


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What one step showed. Times are milliseconds at the client; tokens are of the prompt, 0 when none was made.

    `generations` is how many the workers counted meanwhile. `problems` says what is not as it should be.
    """

    step: str
    question: str
    source: str
    model: str
    ttft_ms: float
    total_ms: float
    tokens_before: int
    tokens_after: int
    stages_ms: dict[str, float]
    generations: int
    answer: str
    problems: list[str]


def row_of(step: Step, answers: list[Answered], generations: int) -> Row:
    """Joins the answers to one step; the first answer stands for all where they agree."""
    first = answers[0]
    sizes = first.notes.get("compress", {})
    return Row(
        step=step.name,
        question=step.question,
        source=_sources(answers),
        model=first.model,
        ttft_ms=round(max(answer.ttft_ms or 0.0 for answer in answers), 1),
        total_ms=round(max(answer.total_ms for answer in answers), 1),
        tokens_before=sizes.get("tokens_before", 0),
        tokens_after=sizes.get("tokens_after", 0),
        stages_ms={stage: round(ms, 1) for stage, ms in first.timings_ms.items() if stage != "total"},
        generations=generations,
        answer=first.text.strip(),
        problems=problems(step, answers, generations),
    )


def _sources(answers: list[Answered]) -> str:
    kinds = [answer.cache or "failure" for answer in answers]
    if len(kinds) == 1:
        return kinds[0]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(sorted(kinds)))


def problems(step: Step, answers: list[Answered], generations: int) -> list[str]:
    """Everything that is not as the step expects; empty when all is well."""
    found = [f"{answer.failure.code}: {answer.failure.detail}" for answer in answers if answer.failure is not None]
    if found:
        return found
    strange = sorted({answer.cache for answer in answers} - set(step.sources))
    if strange:
        found.append(f"the source should be {' or '.join(step.sources)}, not {', '.join(strange)}")
    if generations != step.generations:
        found.append(f"{generations} generations instead of {step.generations}")
    if len({answer.text for answer in answers}) > 1:
        found.append("the answers differ")
    text = answers[0].text.lower()
    found += [f"the answer lacks {fact!r}" for fact in step.facts if fact.lower() not in text]
    found += [f"the answer still says {fact!r}" for fact in step.not_facts if fact.lower() in text]
    return found
