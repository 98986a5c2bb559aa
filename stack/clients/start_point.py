"""The first line of a client's history, and the start position of a consumer."""

import time
from dataclasses import dataclass
from typing import Any, Self

from stack.clients.options import Options
from stack.history.events import ClientStarted, Isolation


@dataclass(frozen=True)
class StartPoint:
    """`beginning`, `end`, `offset:N` or `timestamp:MILLISECONDS`."""

    word: str
    offset: int = 0
    timestamp_ms: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        word, _, number = text.partition(":")
        if word in ("beginning", "end") and not number:
            return cls(word)
        if word == "offset" and number.isdigit():
            return cls(word, offset=int(number))
        if word == "timestamp" and number.isdigit():
            return cls(word, timestamp_ms=int(number))
        raise ValueError(f"--seek {text!r} is none of beginning, end, offset:N, timestamp:MILLISECONDS")


def started_producer(
    options: Options, kind: str, idempotent: bool = False, ordered: bool | None = None, prefix: str = "", **more: Any
) -> ClientStarted:
    """:param ordered: None: as far as it is idempotent.
    :param prefix: of its values, if it is not the client's name.
    """
    return ClientStarted(
        options.client,
        time.time(),
        "producer",
        kind,
        options.topics,
        idempotent=idempotent,
        ordered=idempotent if ordered is None else ordered,
        value_prefix=prefix or f"{options.client}-",
        **more,
    )


def started_consumer(options: Options, kind: str, isolation: Isolation = "read_uncommitted") -> ClientStarted:
    """:param isolation: the library's default."""
    chosen: dict[str, Isolation] = {"read_committed": "read_committed", "read_uncommitted": "read_uncommitted"}
    return ClientStarted(
        options.client,
        time.time(),
        "consumer",
        kind,
        options.topics,
        group=options.group or None,
        isolation=chosen[options.isolation] if options.isolation else isolation,
    )
