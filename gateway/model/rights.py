"""Applies a client's rights to a request and its answer, by the columns of its API's row.

A `Gate` covers one request, on one snapshot of the rights. Denied elements are removed before any cluster is asked, and
are reported in the answer where a broker with the same rules would report them; so neither the answer nor its delay
reveals anything about them. Lists in an answer are reduced to entries that the client may see.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gateway.model.local_names import LocalVerdicts
from ha_core.model.access import CLUSTER_NAME, AclOperation, ResourceType
from ha_core.plan.access.rights import Verdicts
from ha_core.wire.apis import Api
from ha_core.wire.codes import ErrorCode
from ha_core.wire.rights import DENIED, AuthorizedOperationsField, Each, Operation, RequiredRight, Resource, Shown

Message = dict[str, Any]
MAX_TOLD = 100
"""Denials of one request that are audited one by one; it may name a hundred thousand."""


class Denied(NamedTuple):
    """A right that the client lacks."""

    operation: Operation
    resource: Resource
    name: str
    why: str = ""
    """The reason, where the rules would allow it."""


def numbers(operation: Operation, resource: Resource) -> tuple[AclOperation, ResourceType]:
    """Kafka's numbers of the names used in the rows."""
    return AclOperation[operation], ResourceType[resource]


def allows(verdicts: Verdicts, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> bool:
    """Checks a right by the names used in the rows."""
    return verdicts.allows(*numbers(operation, resource), name)


def objection(verdicts: Verdicts, operation: Operation, resource: Resource, name: str, anyway: bool = False) -> str:
    """As `Verdicts.objection`, by the names used in the rows."""
    return verdicts.objection(*numbers(operation, resource), name, anyway)


def missing(verdicts: Verdicts, needs: Iterable[RequiredRight], request: Mapping[str, Any]) -> Denied | None:
    """The first right that a whole request needs and the client lacks."""
    for need in needs:
        if need.when is not None and not need.when.holds(request):
            continue
        name = (request[need.field] or "") if need.field else CLUSTER_NAME
        if allows(verdicts, need.operation, need.resource, name):
            continue
        if need.or_any is not None:
            operation, resource = need.or_any
            if verdicts.allows_any(AclOperation[operation], ResourceType[resource]):
                continue
        return Denied(need.operation, need.resource, name)
    return None


class Gate:
    """:ivar request: the allowed part, with the names of topics in their cluster.
    :ivar answer: the complete answer, if nothing is allowed.
    :ivar denied: the first hundred denials.
    """

    def __init__(self, verdicts: Verdicts, api: Api, version: int, request: Message) -> None:
        self._verdicts, self._api = verdicts, api
        self.request = request
        self.answer: Message | None = None
        self.denied: list[Denied] = []
        self._entries: dict[str, list[Message]] = {}
        """Answers for removed elements, by the list of the answer."""
        self._names = verdicts.names if isinstance(verdicts, LocalVerdicts) else None
        self._renames = False
        if verdicts.everything:
            return
        if (first := missing(verdicts, api.asks.needs, request)) is not None:
            self.denied = [first]
            self.answer = api.denied(version, request, *DENIED[first.resource])
            return
        for each in api.asks.each:
            self._take_out(each)
        if self._names is not None:
            allowed, self.request = self.request, self._names.requested(api.key, self.request)
            self._renames = self.request is not allowed

    @property
    def amends(self) -> bool:
        """True if the answer to the allowed part has to be amended."""
        names = any(self.request[each.request_list] for each in self._api.asks.each)
        shows = bool(self._api.asks.shown) and not names
        return bool(self._entries) or self._renames or (shows and not self._verdicts.everything)

    def amend(self, answer: Message) -> Message:
        """The complete answer, from the answer to the allowed part. That one may be shared, so it is not modified."""
        if self._verdicts.everything:
            return answer
        if self._names is not None:
            answer = self._names.answered(self._api.key, answer)
        for shown in self._api.asks.shown:
            answer = self._without(answer, shown, shown.items)
        for field in self._api.asks.reported:
            answer = self._with_operations(answer, field)
        for items, entries in self._entries.items():
            answer = {**answer, items: [*(answer.get(items) or ()), *entries]}
        return answer

    # -- the request ----------------------------------------------------------------------------------------------

    def _take_out(self, each: Each) -> None:
        elements = self.request[each.request_list]
        if not elements:
            return
        left, out = self._divided(each, elements)
        if not out:
            return
        code, words = DENIED[each.resource]
        entries = self._entries.setdefault(each.answer_list or each.request_list, [])
        entries += _entries(((element, why or each.words or words) for element, why in out), each, code)
        if each.rest is not None:
            entries += _entries(((element, None) for element in left), each, each.rest)
            left = []
        self.request = {**self.request, each.request_list: left}
        if not left and not each.asks_for_none:
            # As if no element could be asked for; the codec adds the other fields.
            self.answer = dict(self._entries)

    def _divided(self, each: Each, elements: Sequence[Any]) -> tuple[Sequence[Any], list[tuple[Any, str]]]:
        """The allowed elements, and the denied ones, each with the reason if the rules would allow it.

        A request may have a hundred thousand elements: the loop does only what differs between them.
        """
        verdicts, (operation, resource) = self._verdicts, numbers(each.operation, each.resource)
        of_cluster = each.on_cluster is not None and allows(verdicts, each.on_cluster, "CLUSTER")
        objects = verdicts.may_object(operation, resource)
        if of_cluster and not objects:
            return elements, []
        names = _names(elements, each)
        repeated = {name for name, times in Counter(names).items() if times > 1} if each.unique else ()
        of_names = each.resource != "CLUSTER"
        left, out = list[Any](), list[tuple[Any, str]]()
        for element, name in zip(elements, names, strict=True):
            if (each.when is not None and not each.when.holds(element)) or name in repeated:
                left.append(element)
                continue
            judged = name if of_names else CLUSTER_NAME
            why = verdicts.objection(operation, resource, judged, of_cluster) if objects else ""
            if not why and (of_cluster or verdicts.allows(operation, resource, judged)):
                left.append(element)
                continue
            out.append((element, why))
            if len(self.denied) < MAX_TOLD:
                self.denied.append(Denied(each.operation, each.resource, judged, why))
        return left, out

    # -- the answer -----------------------------------------------------------------------------------------------

    def _without(self, answer: Message, shown: Shown, path: str) -> Message:
        items, _, inner = path.partition(".")
        elements = answer.get(items)
        if not elements or (shown.on_cluster and allows(self._verdicts, shown.on_cluster, "CLUSTER")):
            return answer
        if inner:
            return {**answer, items: [self._without(element, shown, inner) for element in elements]}
        may = self._verdicts.allows
        operation, resource, field = AclOperation[shown.operation], ResourceType[shown.resource], shown.field
        return {**answer, items: [element for element in elements if may(operation, resource, element[field])]}

    def _with_operations(self, answer: Message, field: AuthorizedOperationsField) -> Message:
        """Operations that the client may perform: at most those that the cluster allows to the gateway's account."""
        if not field.items:
            may = self._verdicts.operations(ResourceType.CLUSTER)
            seen = may >> AclOperation.DESCRIBE & 1
            return _cut(answer, field.field, may if seen else 0)
        elements, resource = answer.get(field.items), ResourceType[field.resource]
        if not elements:
            return answer
        return {
            **answer,
            field.items: [
                _cut(element, field.field, self._verdicts.operations(resource, element[field.name]))
                for element in elements
            ],
        }


def _cut(element: Message, field: str, may: int) -> Message:
    """Negative: the operations were not requested."""
    bits = element.get(field, -1)
    return element if bits < 0 or bits & may == bits else {**element, field: bits & may}


def _names(elements: Iterable[Any], each: Each) -> list[str]:
    field = each.field
    return [(element[field] if field else element) or "" for element in elements]


def _entries(elements: Iterable[tuple[Any, str | None]], each: Each, code: ErrorCode) -> Iterator[Message]:
    """:param elements: with the words of the error."""
    called, field, error = each.called or each.field, each.field, {**each.more, each.code: int(code)}
    for element, words in elements:
        named: Message = {called: (element[field] if field else element) or ""}
        if each.worded:
            error["error_message"] = words
        if not each.partitions:
            yield named | {same: element[same] for same in each.echo} | error
            continue
        indexes = (entry if isinstance(entry, int) else entry[each.numbered] for entry in element[each.partitions])
        yield named | {each.answered or each.partitions: [{each.numbered: index} | error for index in indexes]}
