"""The parts of a request that can be cut, with their sizes, and a plan of what is kept of each."""

import itertools
from collections.abc import Iterable, Sequence

import msgspec

from hasten.compressor import examples, history, recall, selection
from hasten.compressor.budget import Needs, Shares, examples_room, history_room
from hasten.compressor.document import Document, documents
from hasten.compressor.history import conversation
from hasten.compressor.prompt import Draft, Extract, Wording
from hasten.compressor.tokens import TokenCounter, written
from hasten.control import Neutraliser, neutral_turn, neutraliser
from hasten.messages.chat import Example, Turn
from hasten.messages.compress import Compress, Source

_OPENING = 3
"""The first round says what the conversation is about: it stays while it takes a third of the history at most."""
_SURELY = 0.8
"""Turns counted one by one are not quite what they are in the prompt: so much of an excess goes between two counts."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept: indices of examples, a flag for each round, for each document the indices of its units; and what is
    recalled of the rounds that go."""

    examples: list[int]
    rounds: list[bool]
    units: list[list[int]]
    recalled: list[recall.Sentence] = []


class Parts:
    """A request by its parts, made safe and counted one by one.

    A prompt is counted as a whole at the end; the sizes of the parts are for deciding what to leave out.
    """

    def __init__(
        self, request: Compress, counter: TokenCounter, wording: Wording, similar: Sequence[float] = ()
    ) -> None:
        neutral = neutraliser(counter.control_tokens)
        self.request, self._counter, self._similar = request, counter, similar
        self._said: dict[tuple[bool, ...], list[recall.Sentence]] = {}
        self.talk = conversation(neutral_turn(turn, neutral) for turn in request.messages)
        self.examples = [_neutral_example(example, neutral) for example in request.examples]
        if counter.opens_with_user and self.talk.rounds and not _opens(self.talk.rounds[0]):
            self.talk = msgspec.structs.replace(self.talk, rounds=self.talk.rounds[1:])
        asked = self.talk.user is not None
        self.documents = documents(request.passages if asked else [], neutral, counter.counts)
        self._measure(counter, wording)
        self.pinned = [self._is_pinned(turns) for turns in self.talk.rounds]

    def _measure(self, counter: TokenCounter, wording: Wording) -> None:
        turns = [turn for turns in self.talk.rounds for turn in turns]
        shown = [text for example in self.examples for text in (example.user, example.assistant)]
        own = (wording.introduction if self.talk.system else "") + wording.question
        counted = iter(counter.counts([*map(written, turns), *shown, own, wording.earlier + wording.question]))
        per_turn = counter.per_turn
        self.round_sizes = [sum(next(counted) + per_turn for _ in turns) for turns in self.talk.rounds]
        self.example_sizes = [next(counted) + next(counted) + 2 * per_turn for _ in self.examples]
        self.introduction = next(counted) + (0 if self.talk.system else _system_tokens(counter, wording.instruction))
        self._recall_introduction = next(counted) + per_turn

    def _is_pinned(self, turns: Iterable[Turn]) -> bool:
        """Marked by the caller, or the place of a call whose result came after the last user turn."""
        turns = list(turns)
        return history.pinned(turns) or bool(history.calls(turns) & history.results(flat(self.talk.steps)))

    def whole(self) -> Plan:
        """Everything is kept."""
        return Plan(
            examples=list(range(len(self.examples))),
            rounds=[True] * len(self.talk.rounds),
            units=[list(range(len(document.units))) for document in self.documents],
        )

    def bare(self) -> Plan:
        """Only what is never cut is kept."""
        units = [list(range(len(document.units))) if document.pinned else [] for document in self.documents]
        return Plan(examples=[], rounds=list(self.pinned), units=units)

    def cost(self, plan: Plan) -> int:
        """The tokens of what a plan keeps of the parts that can be cut."""
        passages = sum(document.size(units) for document, units in zip(self.documents, plan.units, strict=True))
        rounds = sum(itertools.compress(self.round_sizes, plan.rounds))
        introduction = self.introduction if passages else 0
        return passages + introduction + rounds + sum(self.example_sizes[at] for at in plan.examples)

    def without_oldest_steps(self, excess: int) -> bool:
        """Leaves out the oldest tool steps after the last user turn, one at least and no more than have `_SURELY` of
        `excess` tokens together; False when there is none but the newest."""
        if len(self.talk.steps) < 2:
            return False
        gone, room = 1, int(_SURELY * excess) - self._size(self.talk.steps[0])
        while gone + 1 < len(self.talk.steps) and (size := self._size(self.talk.steps[gone])) <= room:
            gone, room = gone + 1, room - size
        self.talk = msgspec.structs.replace(self.talk, steps=self.talk.steps[gone:])
        return True

    def _size(self, turns: Sequence[Turn]) -> int:
        return sum(self._counter.counts([*map(written, turns)])) + len(turns) * self._counter.per_turn

    def divide(self, room: int, shares: Shares) -> Plan:
        """Gives `room` tokens to the examples, then to the history, and what is left to the passages."""
        room = max(0, room)
        budget = self.request.token_budget
        loose = [0 if pinned else size for size, pinned in zip(self.round_sizes, self.pinned, strict=True)]
        needs = Needs(examples=sum(self.example_sizes), history=sum(loose), passages=self._passages_need())
        chosen = self._choose_examples(examples_room(room, needs, budget, shares))
        room -= sum(self.example_sizes[at] for at in chosen)
        allowed = history_room(room, needs, budget, shares)
        rounds, recalled = self._divide_history(loose, allowed, shares)
        room -= sum(itertools.compress(loose, rounds)) + self._recall_cost(recalled)
        return Plan(examples=chosen, rounds=rounds, units=self._choose_units(room), recalled=recalled)

    def _divide_history(
        self, loose: list[int], allowed: int, shares: Shares
    ) -> tuple[list[bool], list[recall.Sentence]]:
        """The rounds that stay, and what is recalled of the others."""
        if sum(loose) <= allowed:
            return [True] * len(loose), []
        stays = list(self.pinned)
        if self.talk.rounds[0][0].role == "user" and loose[0] <= allowed // _OPENING:
            stays[0] = True
        rounds = history.keep(loose, stays, int((1 - shares.recall) * allowed))
        if not shares.recall:
            return rounds, []
        left = allowed - sum(itertools.compress(loose, rounds))
        return rounds, self._recall(rounds, left - self._recall_introduction)

    def _recall(self, rounds: list[bool], room: int) -> list[recall.Sentence]:
        if room <= 0 or self.talk.user is None:
            return []
        kept = tuple(rounds)
        if kept not in self._said:
            gone = [turns for turns, stays in zip(self.talk.rounds, rounds, strict=True) if not stays]
            self._said[kept] = recall.sentences(gone, self._counter)
        said = self._said[kept]
        return [said[at] for at in recall.choose(said, self.talk.user.text, room)]

    def _recall_cost(self, recalled: Sequence[recall.Sentence]) -> int:
        return recall.cost(recalled) + self._recall_introduction if recalled else 0

    def _introduces(self) -> int:
        """The tokens that the first passage costs besides its own: none when a kept passage has paid them."""
        return 0 if any(document.pinned for document in self.documents) else self.introduction

    def _passages_need(self) -> int:
        need = sum(document.total for document in self.documents if not document.pinned)
        return need + self._introduces() if need else 0

    def _choose_examples(self, room: int) -> list[int]:
        """All of them when they fit, whatever the question, so that they are part of the stable prefix.

        Otherwise those like the conversation's first user turn, which stays the same while the conversation goes on.
        """
        if sum(self.example_sizes) <= room:
            return list(range(len(self.examples)))
        first = next(iter(self._user_texts()), "")
        return examples.choose(self.examples, self.example_sizes, first, room, self._similar)

    def _choose_units(self, room: int) -> list[list[int]]:
        if not self.documents:
            return []
        earlier, asked = ["", *self._user_texts()][-2:]
        query = selection.query_of(asked, earlier, self.documents)
        return selection.choose(self.documents, query, room - self._introduces())

    def _user_texts(self) -> list[str]:
        """What the user said, in order; the last is the question."""
        before = [turn.text for turn in flat(self.talk.rounds) if turn.role == "user"]
        return [*before, self.talk.user.text] if self.talk.user else before

    def draft(self, plan: Plan) -> Draft:
        """The prompt of a plan, to be laid out."""
        chosen = [self.examples[at] for at in plan.examples]
        always = len(chosen) == len(self.examples)
        return Draft(
            system=self.talk.system,
            common=chosen if always else [],
            examples=[] if always else chosen,
            history=flat(itertools.compress(self.talk.rounds, plan.rounds)),
            recalled=recall.text(plan.recalled),
            extracts=[_extract(one, units) for one, units in zip(self.documents, plan.units, strict=True) if units],
            user=self.talk.user,
            steps=flat(self.talk.steps),
        )

    def sources(self, plan: Plan) -> list[Source]:
        """What stands in the prompt of each passage, in the order of their numbers."""
        return [_source(one, units) for one, units in zip(self.documents, plan.units, strict=True) if units]


def _system_tokens(counter: TokenCounter, instruction: str) -> int:
    """What a system turn adds to a prompt without one, to which many templates give a text of their own instead."""
    if not instruction:
        return 0
    user = Turn(role="user", content="")
    return counter.prompt([Turn(role="system", content=instruction), user]) - counter.prompt([user])


def flat(groups: Iterable[Sequence[Turn]]) -> list[Turn]:
    """The turns of all groups in order."""
    return [turn for turns in groups for turn in turns]


def _opens(turns: Sequence[Turn]) -> bool:
    """Whether a round may be the first where a template wants the user first; what the caller has pinned stays."""
    return turns[0].role == "user" or history.pinned(turns)


def _source(document: Document, units: Sequence[int]) -> Source:
    passage = document.passage
    return Source(
        passage=passage.id,
        collection=passage.collection,
        document=passage.document,
        version=passage.version,
        spans=document.spans(units),
    )


def _extract(document: Document, units: Sequence[int]) -> Extract:
    return Extract(title=document.title, text=document.extract(units))


def _neutral_example(example: Example, neutral: Neutraliser) -> Example:
    return Example(user=neutral(example.user), assistant=neutral(example.assistant))
