"""What a request asks a right for, and what is said where it is missing: columns of the rows in `apis`.

Words are Kafka's. Nothing here knows a rule: `gateway/model/rights` judges by these columns.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ha_core.wire.codes import ErrorCode

Operation = Literal[
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
]
Resource = Literal["TOPIC", "GROUP", "TRANSACTIONAL_ID", "CLUSTER"]

DENIED: Mapping[Resource, tuple[ErrorCode, str]] = {
    "TOPIC": (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    "GROUP": (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    "TRANSACTIONAL_ID": (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "Transactional Id authorization failed.",
    ),
    "CLUSTER": (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
}
"""What a broker says, in a number and in words."""


class When(NamedTuple):
    """A field of the request, or of an element, on which it depends what is asked for."""

    field: str
    values: tuple[object, ...]
    otherwise: bool = False
    """Where it has none of them."""

    def holds(self, said: Mapping[str, Any]) -> bool:
        return (said.get(self.field) in self.values) is not self.otherwise


class RequiredRight(NamedTuple):
    """Without it nothing of a request goes on: the whole answer says so."""

    operation: Operation
    resource: Resource
    field: str = ""
    """Of the request: what the resource is called. None: the cluster."""
    when: When | None = None
    or_any: tuple[Operation, Resource] | None = None
    """It is enough to have this on any resource there may be."""


class Each(NamedTuple):
    """The elements of a list in the request are judged one by one: a denied one has its error, the rest goes on."""

    operation: Operation
    resource: Resource
    asked: str
    """The list."""
    field: str = "name"
    """What an element is called; none: it is its name."""
    answers: str = ""
    """The list in the answer; none: the same."""
    called: str = ""
    """Its name there; none: the same."""
    when: When | None = None
    """On which elements it is asked."""
    on_cluster: Operation | None = None
    """On the cluster it is as good, for all of them."""
    partitions: str = ""
    """The element's list of partitions: structs, or bare numbers. An error is said of each of them."""
    answered: str = ""
    """That list in the answer; none: the same."""
    numbered: str = "partition_index"
    """The number of a partition, here and there."""
    code: str = "error_code"
    more: Mapping[str, Any] = {}
    """Beside the code, where the codec's default says something else."""
    echo: tuple[str, ...] = ()
    """Fields of an element that are taken over."""
    rest: ErrorCode | None = None
    """What the others are told: one that is denied stops all."""
    asks_for_none: bool = False
    """The answer says more than what was asked of each: it is made also where nothing is left."""
    worded: bool = False
    """Whether words are said beside the code."""
    words: str = ""
    """Those, where they are not the error's own."""
    unique: bool = False
    """An element that comes twice is refused as that."""


class Shown(NamedTuple):
    """What the answer lists whatever was asked for: what may not be seen is left out."""

    operation: Operation
    resource: Resource
    items: str
    """Its list; of a list in each element of another one: both, with a dot between."""
    field: str
    on_cluster: Operation | None = None


class AuthorizedOperationsField(NamedTuple):
    """A bit field that says what whoever asks may do."""

    resource: Resource
    field: str
    items: str = ""
    """The list in whose elements it stands; none: the answer itself, and the cluster."""
    name: str = "name"


@dataclass(frozen=True, slots=True)
class Asks:
    """All that is asked of one API. Nothing at all: `free` says why."""

    needs: tuple[RequiredRight, ...] = ()
    """In this order."""
    each: tuple[Each, ...] = ()
    shown: tuple[Shown, ...] = ()
    told: tuple[AuthorizedOperationsField, ...] = ()
    free: str = ""


NOTHING = Asks()
"""Of an API that is not offered."""
