"""Messages of NATS cut out of what was read, however it was cut before; and the bytes that publish one."""

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.errors import ProtocolError
from nats.js.api import Header
from nats.protocol.parser import Parser

from hasten.wire import WireParser, headers_of, publication

HEAD = b"NATS/1.0\r\nHasten-Tenant: acme\r\n\r\n"
SENT = [
    (b"MSG a.b 1 5\r\nhello\r\n", (1, b"a.b", b"", b"hello", None)),
    (b"MSG a.b 2 _INBOX.x.1 0\r\n\r\n", (2, b"a.b", b"_INBOX.x.1", b"", None)),
    (b"HMSG a 3 %d %d\r\n%bhi\r\n" % (len(HEAD), len(HEAD) + 2, HEAD), (3, b"a", b"", b"hi", HEAD)),
    (b"HMSG a 4 r.x %d %d\r\n%b\r\n" % (len(HEAD), len(HEAD), HEAD), (4, b"a", b"r.x", b"", HEAD)),
    (b"MSG \xff 5 12\r\nMSG a 1 1\r\nx\r\n", (5, b"\xff", b"", b"MSG a 1 1\r\nx", None)),
    (b"PING\r\n", "ping"),
    (b"+OK\r\n", None),
]


class Client:
    """What the parser asks of nats-py's client."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.parser = WireParser(self, self.deliver)

    def deliver(self, *message: Any) -> None:
        self.seen.append(message)

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes | None) -> None:
        self.seen.append((sid, subject, reply, data, headers))

    async def _process_ping(self) -> None:
        self.seen.append("ping")

    async def _process_pong(self) -> None:
        self.seen.append("pong")

    async def _process_err(self, error: str) -> None:
        self.seen.append(error)

    async def _process_info(self, info: dict[str, Any]) -> None:
        self.seen.append(info)

    async def read(self, pieces: list[bytes]) -> list[Any]:
        """What is seen of pieces that come one after another, and what is raised at last."""
        for piece in pieces:
            try:
                await self.parser.parse(piece)
            except Exception as error:
                return [*self.seen, type(error)]
        return self.seen


class Theirs(Client):
    """The same with nats-py's own parser."""

    def __init__(self) -> None:
        super().__init__()
        self.parser: Any = Parser(self)


WORDS = st.sampled_from([b"a", b"a.b", b"\xff", b"1", b"a\x0cb", b"x\x85y", b"MSG"])
NUMBERS = st.sampled_from([b"0", b"1", b"5", b"007", b"-1", b"", b"x", b"+3", b"1_0", b"99999999", b"\xb2"])
GAPS = st.sampled_from([b" ", b" ", b"  ", b"\t", b" \t"])
OTHERS = [b"PING\r\n", b"PONG\r\n", b"+OK\r\n", b"-ERR 'x'\r\n", b'INFO {"a":1}\r\n', b"PING \r\n", b"NO\r\n", b"\r\n"]


@st.composite
def spoken(draw: st.DrawFn) -> bytes:
    """Something that a server might say, or nearly."""
    if draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(OTHERS))
    head, body = draw(st.sampled_from([b"", HEAD])), draw(st.binary(max_size=14))
    sizes = [len(head), len(head) + len(body)][not head :]
    words = [draw(st.sampled_from([b"HMSG" if head else b"MSG"] * 6 + [b"msg", b"HMSG"])), draw(WORDS)]
    words += [draw(st.sampled_from([b"1", b"2", b"x"])), *draw(st.lists(WORDS, max_size=1))]
    words += [draw(st.just(b"%d" % size) | NUMBERS) for size in sizes]
    line = b"".join(word + draw(GAPS) for word in words[:-1]) + words[-1]
    return line + draw(st.sampled_from([b"\r\n"] * 4 + [b" \r\n"])) + head + body + b"\r\n"


@given(st.lists(spoken(), max_size=5).map(b"".join), st.lists(st.integers(0, 200), max_size=6))
async def test_what_is_seen_of_any_bytes_is_what_nats_pys_parser_sees(raw: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    pieces = [raw[start:end] for start, end in pairwise(places)]
    assert await Client().read(pieces) == await Theirs().read(pieces)


@given(st.lists(st.sampled_from(SENT)), st.lists(st.integers(0, 400), max_size=12))
async def test_each_message_is_delivered_once_in_order_however_the_bytes_come(
    sent: list[tuple[bytes, Any]], cuts: list[int]
) -> None:
    client, raw = Client(), b"".join(one for one, _ in sent)
    places = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    for start, end in pairwise(places):
        await client.parser.parse(raw[start:end])
    assert client.seen == [what for _, what in sent if what is not None]


async def test_a_body_of_many_reads_is_put_together_once() -> None:
    client, body = Client(), b"x" * 300_000
    raw = b"MSG a 1 %d\r\n%b\r\nPING\r\n" % (len(body), body)
    for at in range(0, len(raw), 1000):
        await client.parser.parse(raw[at : at + 1000])
    assert client.seen == [(1, b"a", b"", body, None), "ping"]


@pytest.mark.parametrize(
    "raw", [b"MSG a 1 -5\r\nhello\r\n", b"MSG a b c d e\r\n", b"HMSG a 1 9 5\r\n12345\r\n", b"NO\r\n"]
)
async def test_what_is_no_nats_is_refused_or_waited_for_and_never_delivered(raw: bytes) -> None:
    client = Client()
    try:
        await client.parser.parse(raw)
    except (ProtocolError, ValueError):
        return
    assert [one for one in client.seen if one[4] is None] == []


async def test_a_new_connection_begins_with_nothing_of_the_last() -> None:
    client = Client()
    await client.parser.parse(b"MSG a 1 5000\r\nhello")
    client.parser.reset()
    await client.parser.parse(b"MSG b 2 2\r\nhi\r\n")
    assert client.seen == [(2, b"b", b"", b"hi", None)]


def test_headers_are_read_and_what_is_malformed_is_left_out() -> None:
    assert headers_of(HEAD) == {"Hasten-Tenant": "acme"}
    assert headers_of(b"NATS/1.0 503\r\n\r\n") == {"Status": "503"}
    assert headers_of(b"NATS/1.0 \xff\r\n\r\n") == {}
    assert headers_of(b"XX\r\n") == {}
    assert headers_of(b"NATS/1.0\r\na b: c\r\nno colon\r\n\xff: x\r\nd:e:f\r\ng: \xff\r\n\r\n") == {
        "d": "e:f",
        "g": "�",
    }


def test_a_publication_is_read_back_as_it_was_made() -> None:
    assert publication("a.b", "", b"hello", None) == b"PUB a.b  5\r\nhello\r\n"
    raw = publication("a", "r", "grün".encode(), {"Hasten-Tenant": "acme", "Name": "ü"})
    assert raw is not None
    sizes = re.match(rb"HPUB a r (\d+) (\d+)\r\n", raw)
    assert sizes is not None
    head, rest = int(sizes[1]), raw[sizes.end() :]
    assert headers_of(rest[:head]) == {"Hasten-Tenant": "acme", "Name": "ü"}
    assert rest[head : int(sizes[2])] == "grün".encode()


@pytest.mark.parametrize("value", ["a\r\nPUB x 1\r\ny", "a\nb", "a\rb"])
def test_a_line_break_in_a_header_gets_a_closer_look(value: str) -> None:
    assert publication("a", "", b"", {"Name": value}) is None
    assert publication("a", "", b"", {value: "x"}) is None


def test_a_name_of_nats_py_is_written_as_the_server_knows_it() -> None:
    raw = publication("a", "", b"", {Header.EXPECTED_LAST_SUBJECT_SEQUENCE: "7"})
    assert raw is not None
    assert b"\r\nNats-Expected-Last-Subject-Sequence: 7\r\n" in raw
