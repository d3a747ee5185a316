"""Settings of the gateway."""

import msgspec


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`http` is HOST:PORT to listen on (port 0: any free one). `max_body_bytes` is the longest request body,
    `max_header_bytes` the longest headers and `max_requests` how many may be served at once; one may want `max_choices`
    answers (`n`). `deadline_s` is for requests that name none. `headers_s` is how long the headers of a stream are held
    back for its first token, so that a failure before it has a status of its own. `ping_s` of silence bring a comment
    on the stream (0: never). A caller may take `read_timeout_s` to send its headers and again for its body; one that
    takes nothing of what was sent for `write_timeout_s` is cut off, and so is one that has `max_unsent_bytes` of its
    answer waiting. An orchestrator that says nothing for `silence_s` is lost: it pings twice a second; another one is
    asked for `resume_s` to go on with the answer.
    A stream of /v1/stream can be gone on with for `resume_for_s` (0: its events are not written down). A WebSocket may
    have `socket_requests` answered at once, and is closed when it has asked for nothing for `socket_idle_s`.
    At most `max_boards` live boards are read at once, and each is told of the figures every `board_s`."""

    http: str = "127.0.0.1:8080"
    max_body_bytes: int = 1024 * 1024
    max_header_bytes: int = 16 * 1024
    max_requests: int = 1024
    max_choices: int = 8
    deadline_s: float = 60.0
    headers_s: float = 5.0
    ping_s: float = 10.0
    read_timeout_s: float = 30.0
    write_timeout_s: float = 30.0
    max_unsent_bytes: int = 1024 * 1024
    resume_for_s: float = 300.0
    socket_requests: int = 16
    socket_idle_s: float = 300.0
    silence_s: float = 1.5
    resume_s: float = 15.0
    max_boards: int = 64
    board_s: float = 1.0
