"""Recorded traffic: when requests came and how long they and their answers were, without a word of them.

azure: the Azure LLM inference dataset 2023 (P. Patel et al., Splitwise, ISCA 2024), CSV of time, prompt and answer
tokens. mooncake: the FAST '25 traces (R. Qin et al.), JSON lines with the ids of the prompt's blocks of 512 tokens
besides: prompts that begin with the same ids begin with the same text.
"""

import csv
from datetime import datetime
from pathlib import Path

import msgspec

BLOCK = 512
"""Tokens of a block of the mooncake traces."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded request. `at_s` counts from the trace's first."""

    at_s: float
    prompt_tokens: int
    answer_tokens: int
    blocks: tuple[int, ...] = ()


class _Line(msgspec.Struct):
    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[int]


def azure(path: Path) -> list[Row]:
    """The rows of a file, in the order of their times."""
    with path.open(newline="") as file:
        lines = [
            (_moment(line["TIMESTAMP"]), int(line["ContextTokens"]), int(line["GeneratedTokens"]))
            for line in csv.DictReader(file)
        ]
    lines.sort(key=lambda line: line[0])
    first = lines[0][0] if lines else 0.0
    return [Row(at_s=at - first, prompt_tokens=prompt, answer_tokens=answer) for at, prompt, answer in lines]


def _moment(text: str) -> float:
    """Seconds; the file has seven digits of a second, of which six can be read."""
    whole, _, fraction = text.partition(".")
    return datetime.strptime(whole, "%Y-%m-%d %H:%M:%S").timestamp() + float(f"0.{fraction or 0}")


def mooncake(path: Path) -> list[Row]:
    """The rows of a file; its times are in ms."""
    decode = msgspec.json.Decoder(_Line).decode
    lines = sorted(map(decode, path.read_bytes().splitlines()), key=lambda line: line.timestamp)
    return [
        Row(
            at_s=(line.timestamp - lines[0].timestamp) / 1000,
            prompt_tokens=line.input_length,
            answer_tokens=line.output_length,
            blocks=tuple(line.hash_ids),
        )
        for line in lines
    ]


def stretch(rows: list[Row], start_s: float, seconds: float) -> list[Row]:
    """The rows that came within so many seconds from `start_s` on, with their times from there."""
    inside = [row for row in rows if start_s <= row.at_s < start_s + seconds]
    return [msgspec.structs.replace(row, at_s=row.at_s - start_s) for row in inside]
