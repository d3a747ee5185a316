"""Reviews one prompt, or a request with all its parts, in tokens of one model; pure."""

from collections.abc import Sequence

import msgspec

from hasten.compressor.tokens import TokenCounter, as_json
from hasten.messages.chat import SYSTEM_ROLES, ChatRequest
from hasten.prompts.contradiction import contradictions
from hasten.prompts.dead import Sent, dead
from hasten.prompts.filler import fillers
from hasten.prompts.finding import Finding
from hasten.prompts.page import Page
from hasten.prompts.repetition import repeated
from hasten.prompts.schema import repeated_descriptions, repeated_examples
from hasten.prompts.suggestion import applied, safe, suggested
from hasten.prompts.volatile import LEAST_BEHIND, volatile
from hasten.prompts.waste import waste

_SHOWN = 120


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in a text; `suggested` is the whole of it with every suggestion taken, and its tokens."""

    source: str
    tokens: int
    suggested_tokens: int
    text: str
    suggested: str
    findings: list[Finding] = []


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A text to review: of a file alone, or the system text of a request."""

    source: str
    text: str
    request: ChatRequest | None = None


def review(prompt: Prompt, counter: TokenCounter) -> Review:
    """Everything that is to be said of one prompt."""
    text, request = prompt.text, prompt.request
    page = Page(text)
    sent = sent_of(request)
    behind = _behind(request, counter)
    changing = [
        one for one in volatile(page, template=request is None) if _after(page, one, counter, behind) > LEAST_BEHIND
    ]
    found = [
        *repeated(page),
        *changing,
        *fillers(page),
        *contradictions(page),
        *dead(page, sent),
        *waste(page),
    ]
    told = [_told(page, one, counter, behind) for one in safe(text, found)]
    findings = [one for one in told if one.tokens > 1 or one.kind != "whitespace"]
    if request is not None:
        findings += _of_the_request(request, text, counter)
    made = suggested(text, findings)
    tokens, after = counter.counts([text, made])
    if not any(one.edit is not None and one.edit.moved for one in findings):
        after = min(tokens, after)
    return Review(
        source=prompt.source, tokens=tokens, suggested_tokens=after, text=text, suggested=made, findings=findings
    )


def sent_of(request: ChatRequest | None) -> Sent:
    """What a request has besides its system text."""
    if request is None:
        return Sent()
    shown = any(turn.role == "assistant" for turn in request.messages)
    return Sent(whole=True, tools=bool(request.tools), examples=bool(request.examples) or shown)


def system_of(request: ChatRequest) -> str:
    """The system text as the compressor sends it."""
    return "\n\n".join(turn.text for turn in request.messages if turn.role in SYSTEM_ROLES and turn.text)


def _behind(request: ChatRequest | None, counter: TokenCounter) -> int:
    """Tokens of what follows the system text and could be computed once: examples and earlier turns."""
    if request is None:
        return 0
    turns = [turn.text for turn in request.messages if turn.role not in SYSTEM_ROLES][:-1]
    shown = [text for example in request.examples for text in (example.user, example.assistant)]
    return sum(counter.counts([*turns, *shown]))


def _after(page: Page, finding: Finding, counter: TokenCounter, behind: int) -> int:
    end = finding.edit.end if finding.edit is not None else finding.end
    return counter.counts([page.text[end:].strip()])[0] + behind


def _told(page: Page, finding: Finding, counter: TokenCounter, behind: int) -> Finding:
    """The finding with its line, its text, and the tokens that its edit saves. An estimate of the whole text may not
    show that; then those of the edit alone count."""
    start, end = finding.start, finding.end
    text = " ".join(page.text[start:end].split())
    edit = finding.edit
    tokens = 0
    if edit is not None and not edit.moved:
        whole, less = counter.counts([page.text, applied(page.text, [edit])])
        tokens = max(0, whole - less)
        if not tokens and finding.kind != "whitespace":
            before, said = counter.counts([page.text[edit.start : edit.end], edit.text])
            tokens = max(0, before - said)
    after = _after(page, finding, counter, behind) if finding.kind in ("volatile", "placeholder") else 0
    return msgspec.structs.replace(
        finding,
        line=page.line(start),
        text=text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…",
        tokens=tokens,
        after=after,
    )


def _of_the_request(request: ChatRequest, system: str, counter: TokenCounter) -> list[Finding]:
    tools = as_json(request.tools or [])
    found = []
    for one in repeated_descriptions(request.tools, system):
        text = tools[one.start : one.end]
        found.append(msgspec.structs.replace(one, text=text[:_SHOWN], tokens=counter.counts([text])[0]))
    pairs = [(example.user, example.assistant) for example in request.examples]
    for why, at in repeated_examples(pairs):
        text = "\n".join(pairs[at])
        found.append(
            Finding(kind="example", start=0, end=0, why=why, text=text[:_SHOWN], tokens=counter.counts([text])[0])
        )
    return found


def differing(prompts: Sequence[Prompt], counter: TokenCounter) -> dict[int, Finding]:
    """What changes between requests with nearly the same system text: by the number of the later one."""
    found: dict[int, Finding] = {}
    for at in range(1, len(prompts)):
        before, text = prompts[at - 1].text, prompts[at].text
        if before == text or prompts[at].request is None or prompts[at - 1].request is None:
            continue
        head, tail = _common(before, text)
        if head + tail < 0.8 * min(len(before), len(text)):
            continue
        end = max(head + 1, len(text) - tail)
        after = counter.counts([text[head:]])[0] + _behind(prompts[at].request, counter)
        if after <= LEAST_BEHIND:
            continue
        shown = " ".join(text[head:end].split())
        why = f"the request before has something else here: {_TO_THE_END}"
        found[at] = Finding(
            kind="volatile",
            start=head,
            end=min(end, len(text)),
            why=why,
            line=text.count("\n", 0, head) + 1,
            text=shown[:_SHOWN],
            after=after,
        )
    return found


_TO_THE_END = "put what differs into the last user turn, or at the end of the system text"


def _common(one: str, two: str) -> tuple[int, int]:
    """How many characters two texts have in common at their starts, and behind that at their ends."""
    most = min(len(one), len(two))
    head = next((at for at in range(most) if one[at] != two[at]), most)
    tail = 0
    while tail < most - head and one[len(one) - 1 - tail] == two[len(two) - 1 - tail]:
        tail += 1
    return head, tail
