"""A composed handler answers every request or refuses it: it never fails."""

import random
from contextlib import suppress
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.composed.handlers import HANDLERS, NeedNodes, compose
from ha_core.wire import APIS, RemoteProtocolError
from ha_core.wire.schemas import SCHEMAS
from tests.gateway.composed.playbook import Playbook, away, requested, world
from tests.wire.samples import message, seeds

OFFERED = [(key, v) for key in HANDLERS for v in range(APIS[key].min_version, APIS[key].max_version + 1)]
KNOWN = {"t": {0: 1}, "t" * 9: {0: 2}}


@given(st.sampled_from(OFFERED), seeds, st.sampled_from(["", "east", "west"]), st.booleans(), st.booleans())
@settings(deadline=None, max_examples=800)
def test_a_handler_answers_a_request_with_any_values(
    api: tuple[int, int], seed: int, down: str, at_broker: bool, direct: bool
) -> None:
    # Given a request with any values, and clusters that do not answer
    key, version = api
    body = requested(key, version, **message(SCHEMAS[key].fields("request"), version, random.Random(seed)))
    context = world(east=KNOWN, west=KNOWN, down=down, port=("east", 1) if at_broker else None)
    context = replace(context, direct=direct and not at_broker)
    # Then
    with suppress(RemoteProtocolError):
        play = Playbook(compose(context, key, version, body))
        while play.waits:
            if isinstance(play.step, NeedNodes):
                play.wants(*play.step.brokers)
            else:
                play.answers({"east": away("east"), "west": away("west")})
        play.encodes(key, version)
