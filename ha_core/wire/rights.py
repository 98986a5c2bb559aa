"""The rights that a request requires, and its errors without them: columns of the rows in `apis`.

The words are Kafka's. ACLs are not known here: `gateway/model/rights` judges by these columns.
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
"""A broker's error code and message."""


class When(NamedTuple):
    """A condition on a field of the request, or of an element."""

    field: str
    values: tuple[object, ...]
    otherwise: bool = False
    """True if the field must have none of the values."""

    def holds(self, message: Mapping[str, Any]) -> bool:
        return (message.get(self.field) in self.values) is not self.otherwise


class RequiredRight(NamedTuple):
    """Required for the whole request: without it the whole answer is an error."""

    operation: Operation
    resource: Resource
    field: str = ""
    """Field of the request with the resource's name; "": the cluster."""
    when: When | None = None
    or_any: tuple[Operation, Resource] | None = None
    """This right on any resource is enough."""


class Each(NamedTuple):
    """Required per element of a list in the request: a denied element has an error, the rest is processed."""

    operation: Operation
    resource: Resource
    request_list: str
    """The list in the request."""
    field: str = "name"
    """Field with an element's name; "": the element is its name."""
    answer_list: str = ""
    """The list in the answer; "": equal to `request_list`."""
    called: str = ""
    """Field with the name there; "": equal to `field`."""
    when: When | None = None
    """Elements that require it."""
    on_cluster: Operation | None = None
    """This right on the cluster is enough for all elements."""
    partitions: str = ""
    """The element's list of partitions: structs, or bare numbers. Each of them gets the error."""
    answered: str = ""
    """Field of the list in the answer; "" if it is `partitions`."""
    numbered: str = "partition_index"
    """Field with a partition's number, in request and answer."""
    code: str = "error_code"
    more: Mapping[str, Any] = {}
    """Fields beside the code, where the codec's default is wrong."""
    echo: tuple[str, ...] = ()
    """Fields copied from an element."""
    rest: ErrorCode | None = None
    """Error of the other elements, if one denied element stops all."""
    asks_for_none: bool = False
    """The answer has more than its elements: it is requested even if no element is left."""
    worded: bool = False
    """True if there is an error message beside the code."""
    words: str = ""
    """The message, if it is not the error's own."""
    unique: bool = False
    """A repeated element is refused as such."""


class Shown(NamedTuple):
    """Required to see elements that the answer lists on its own: the others are left out."""

    operation: Operation
    resource: Resource
    items: str
    """The list in the answer; for a nested list both names, with a dot between."""
    field: str
    on_cluster: Operation | None = None


class AuthorizedOperationsField(NamedTuple):
    """A bit field with the operations that the client may do."""

    resource: Resource
    field: str
    items: str = ""
    """The list whose elements have it; "": the answer itself, for the cluster."""
    name: str = "name"


@dataclass(frozen=True, slots=True)
class Asks:
    """All rights that an API requires. If none, `free` has the reason."""

    needs: tuple[RequiredRight, ...] = ()
    """Checked in this order."""
    each: tuple[Each, ...] = ()
    shown: tuple[Shown, ...] = ()
    reported: tuple[AuthorizedOperationsField, ...] = ()
    free: str = ""


NOTHING = Asks()
"""For an API that is not offered."""
