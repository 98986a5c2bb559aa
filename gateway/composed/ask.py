"""The gateway's own questions to clusters."""

from collections.abc import Generator, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AnyBroker:
    """Any available broker."""


@dataclass(frozen=True, slots=True)
class Controller:
    pass


@dataclass(frozen=True, slots=True)
class OneBroker:
    broker_id: int
    """Id in its own cluster."""


@dataclass(frozen=True, slots=True)
class Coordinator:
    kind: Literal["group", "transaction"]
    key: str


Target = AnyBroker | Controller | OneBroker | Coordinator


@dataclass(frozen=True)
class Ask:
    """One request of the gateway itself to a cluster; the upstream connection chooses the version."""

    cluster: str
    target: Target
    api_key: int
    message: Message
    timeout_ms: int = 10_000


class ClusterUnavailableError(Exception):
    """A cluster could not be asked, or did not answer in time."""

    def __init__(self, cluster: str, why: str) -> None:
        super().__init__(f"cluster {cluster} is not available: {why}")
        self.why = why


Reply = Message | ClusterUnavailableError
Asking = Generator[tuple[Ask, ...], Any, T]
"""Part of a handler that only asks."""


def ask_once(ask: Ask) -> Asking[Reply]:
    return (yield from ask_each({None: ask}))[None]


def ask_or(otherwise: Message, ask: Ask) -> Asking[Message]:
    """The reply, or `otherwise` if the cluster is not available."""
    reply = yield from ask_once(ask)
    return otherwise if isinstance(reply, ClusterUnavailableError) else reply


def ask_each(asks: Mapping[K, Ask]) -> Asking[dict[K, Reply]]:
    """Key → reply, all asked in parallel; without asks it yields nothing."""
    replies: list[Reply] = (yield tuple(asks.values())) if asks else []
    return dict(zip(asks, replies, strict=True))


def grouped(pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """Key → its values, both in their original order."""
    groups: dict[K, list[T]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups
