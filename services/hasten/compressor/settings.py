"""The compressor's settings."""

import msgspec

from hasten.compressor.budget import Shares
from hasten.compressor.domain import Policy
from hasten.compressor.prompt import Wording


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator can set.

    `data` is the folder that holds models/<tokenizer>/tokenizer.json and chat_template.jinja. `limit` requests are
    worked on at once and `waiting` more wait. `threads` do the work of requests longer than `inline_characters`;
    shorter ones take less time than handing them over. `counts_kept` is how many texts' token counts each tokenizer
    remembers. `vectors_kept` is how many examples' vectors are remembered, and `embed_wait_ms` how long a request whose
    examples do not fit waits for the embedder (0: it is not asked, and they are chosen by their words). `part_tokens`
    stands for an image or another content part that is not text.

    `example_share` and `history_share` are what these may take of the token budget when something has to be cut, and
    `passage_share` what the passages get at least of the tokens that the examples leave. What the passages do not need
    goes to the history, then to the examples. `recall_share` is how much of the history's tokens is for sentences of
    left-out rounds that are about the question (0: none). `floor_share` is what the parts that can be cut get even when
    the fixed ones fill the budget. `instruction` is the system text of a request that has passages and no system text
    of its own (empty: none); `introduction` is put before the passages where the caller has one; `question` is put
    before the user's words when passages precede them, and `earlier` before what is recalled.
    """

    data: str = ".hasten"
    limit: int = 64
    waiting: int = 512
    threads: int = 1
    inline_characters: int = 2000
    counts_kept: int = 50_000
    vectors_kept: int = 4096
    embed_wait_ms: float = 60.0
    part_tokens: int = 800
    example_share: float = 0.2
    history_share: float = 0.3
    passage_share: float = 0.4
    recall_share: float = 0.3
    floor_share: float = 0.25
    instruction: str = "Read the text and answer the question. Quote the sentence of the text that has the answer."
    introduction: str = "Use the numbered passages below to answer; they come from the documents that were searched."
    question: str = "Question: "
    earlier: str = "Said earlier in this conversation:"

    def policy(self) -> Policy:
        """The part of the settings that decides what a prompt looks like."""
        return Policy(
            shares=Shares(
                examples=self.example_share,
                history=self.history_share,
                passages=self.passage_share,
                recall=self.recall_share,
                floor=self.floor_share,
            ),
            wording=Wording(
                instruction=self.instruction,
                introduction=self.introduction,
                question=self.question,
                earlier=self.earlier,
            ),
        )
