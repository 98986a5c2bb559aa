"""Whatever bytes a client sends, its session answers or ends: it never fails, and releases what it held."""

import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.session.commands import Cause, Compose
from gateway.session.snapshot import Port
from ha_core.wire import APIS, RemoteProtocolError, decode, encode, encode_request, inline
from ha_core.wire.apis import Destination
from ha_core.wire.schemas import SCHEMAS
from tests.gateway.session.talk import Talk, snapshot, topology
from tests.wire.samples import cut_lists, damaged, message, pieces, seeds

STATE = snapshot(found=topology(east={"orders": {0: 1}, "__consumer_offsets": {0: 1}}))
OFFERED = [
    (key, version)
    for key, api in APIS.items()
    if api.destination is not Destination.HIDDEN
    for version in range(api.min_version, api.max_version + 1)
]
RIGHT = {
    Cause.MALFORMED,
    Cause.FOREIGN_PROTOCOL,
    Cause.UNSUPPORTED,
    Cause.NOT_AUTHENTICATED,
    Cause.AUTHENTICATION_FAILED,
}
RIGHT |= {Cause.REFUSED_WITHOUT_ANSWER}


def played(data: bytes, cuts: list[int], port: Port, users: dict[str, str] | None = None) -> Talk:
    """A session that got these bytes, in pieces."""
    talk = Talk(STATE, port, users=users, chunks=lambda whole: list(pieces(whole, cuts)))
    talk.send(data)
    for command in talk.others:
        if isinstance(command, Compose) and isinstance(command.request, bytes):
            limits = inline(talk.session.context.shared.limits)
            with suppress(RemoteProtocolError):
                decode(command.api_key, command.api_version, "request", command.request, limits=limits)
    return talk


def is_right(talk: Talk) -> None:
    if talk.closed is not None:
        assert talk.closed.cause in RIGHT
    talk.session.intake.let_go()
    assert talk.session.context.shared.held.bytes == 0


@given(st.binary(max_size=300), cut_lists, st.booleans(), st.booleans())
@settings(deadline=None, max_examples=300)
def test_random_bytes_never_fail_a_session(data: bytes, cuts: list[int], known: bool, at_broker: bool) -> None:
    is_right(played(data, cuts, Port("east", 1) if at_broker else Port(), None if known else {"app": "secret"}))


@given(st.sampled_from(OFFERED), seeds, st.booleans(), cut_lists, st.booleans())
@settings(deadline=None, max_examples=600)
def test_changed_bytes_in_requests_of_every_api_never_fail_a_session(
    api: tuple[int, int], seed: int, is_damaged: bool, cuts: list[int], at_broker: bool
) -> None:
    # Given a valid request with changed or missing bytes
    key, version = api
    chance = random.Random(seed)
    body = encode(key, version, "request", message(SCHEMAS[key].fields("request"), version, chance))
    if is_damaged and body:
        body = damaged(body, chance)
    frame = encode_request(key, version, 7, "app", body)
    # Then
    is_right(played(frame, cuts, Port("east", 1) if at_broker else Port()))


@pytest.mark.parametrize("size", [0, -1, -(2**31), 2**31 - 1, 104_857_601])
def test_invalid_sizes_end_the_connection(size: int) -> None:
    talk = played(size.to_bytes(4, "big", signed=True) + bytes(20), [], Port())
    assert talk.closed is not None
    is_right(talk)
