"""From the form of the switch DAG to a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ha_core.model import MoveRequest
from ha_core.operations.requests import make_request


def request_of(form: Mapping[str, Any]) -> MoveRequest:
    """The request that `form` (the params of the DAG run) describes.

    :raises RefusedError: names the field, the value and what it should be.
    """
    return make_request(
        [entry for entry in (str(one).strip() for one in form["scope"]) if entry],
        str(form["from"]).strip(),
        str(form["to"]).strip(),
        mode=form["mode"],
        reason=str(form["reason"]).strip(),
        drain_timeout_s=form["drain_timeout_s"],
        include_followers=form["include_followers"],
        unread=form["unread"],
    )
