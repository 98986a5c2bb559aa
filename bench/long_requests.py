"""The largest request of each API that a gateway accepts: half of the names in it are called own, half are not."""

from typing import Any

from ha_core.model.access import AccessRule, access_rule
from ha_core.wire import APIS, ApiKey, Destination, encode, encode_request
from ha_core.wire.limits import DEFAULT_LIMITS
from ha_core.wire.schemas import SCHEMAS
from ha_core.wire.tables import Field

_DATA_PATH = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})
_OF_THE_LOGIN = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS})
_CLOSES = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.LEAVE_GROUP})
"""APIs whose lists go to a coordinator unread."""
_FIXED: dict[str, Any] = {"acks": 1, "timeout_ms": 1000, "max_wait_ms": 1, "max_bytes": 1 << 20, "group_id": "group"}
_FIXED |= {"transactional_id": "tx", "replica_id": -1, "session_epoch": -1}
_MORE = 0.9
"""Share of the size limit: a message has other lists as well."""


def rules(own: bool) -> tuple[AccessRule, ...]:
    """A client without a login may do everything with its group and its transactions, and with resources called own."""
    resources = [("group", "group"), ("transactional_id", "tx"), *([("topic", "own"), ("group", "own")] if own else ())]
    whose = {"principal": "User:anonymous", "operation": "all", "effect": "allow", "pattern": "prefixed"}
    return tuple(access_rule({**whose, "resource_type": kind, "name": name}) for kind, name in resources)


def names() -> list[str]:
    """Names of the APIs whose requests have a list."""
    return [APIS[key].key.name for key in sorted(APIS) if _listing(key) is not None]


def frame(name: str) -> bytes:
    """An API's request, with a header."""
    key = ApiKey[name]
    api, listing = APIS[key], _listing(key)
    assert listing is not None
    version = api.max_version
    most = (
        DEFAULT_LIMITS.max_partitions if key in _DATA_PATH else DEFAULT_LIMITS.max_inline // _elements(listing, version)
    )
    message = {
        field.name: _FIXED[field.name]
        for field in SCHEMAS[key].fields("request")
        if field.name in _FIXED and field.at(version)
    }
    message[listing.name] = [_filled(listing.element, version, number) for number in range(int(most * _MORE))]
    return encode_request(key, version, 1, "app", encode(key, version, "request", message))


def _listing(key: int) -> Field | None:
    api = APIS[key]
    if api.destination in (Destination.HIDDEN, Destination.LOCAL) or api.key in (_OF_THE_LOGIN | _CLOSES):
        return None
    fields = SCHEMAS[key].fields("request")
    return next((field for field in fields if field.is_array and field.at(api.max_version)), None)


def _elements(listing: Field, version: int) -> int:
    """Elements that one element of this list comes to: itself, and one of each list in it."""
    return 1 + sum(_elements(field, version) for field in listing.fields or () if field.is_array and field.at(version))


def _filled(field: Field, version: int, number: int) -> Any:
    """One element with its own first name, and one element of each list in it."""
    if field.type == "string":
        return f"{'own' if number % 2 else 'other'}-{number}"
    if field.type != "{}":
        return number
    found: dict[str, Any] = {}
    named = False
    for one in field.fields:
        if not one.at(version):
            continue
        if one.is_array:
            found[one.name] = [_filled(one.element, version, 0 if not one.fields else number)]
        elif one.type == "string" and not named:
            found[one.name], named = _filled(one, version, number), True
    return found
