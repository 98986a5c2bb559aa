"""From the form of the switch DAG to a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ha_core.model import MoveRequest, Scope
from ha_core.moves.errors import RefusedError
from ha_core.moves.scope import format_scope
from ha_core.moves.switch.prepare import make_request

PAIRS = {"instances": ("+", "USER+CLIENT-ID"), "user_topics": ("#", "USER#TOPIC"), "user_groups": ("##", "USER##GROUP")}
"""Fields whose entries are a user and something of it, with the mark between them and the form in words."""


def scope_entries(form: Mapping[str, Any]) -> list[str]:
    """The scope as `parse_scope` reads it: users and topics by their plain names, pairs as they are written.

    :raises RefusedError: a pair without its mark.
    """
    plain = Scope(users=_names(form, "users"), topics=_names(form, "topics"))
    entries = list(format_scope(plain))
    for field, (mark, shape) in PAIRS.items():
        for name in _names(form, field):
            user, found, rest = name.partition(mark)
            if not user or not found or not rest or rest.startswith("#"):
                raise RefusedError(f"{field}: {name!r} is not understood. Write {shape}.")
            entries.append(f"user:{name}")
    return entries


def request_of(form: Mapping[str, Any]) -> MoveRequest:
    """The request that `form` (the params of the DAG run) describes.

    :raises RefusedError: names the field, the value and what it should be.
    """
    return make_request(
        scope_entries(form),
        str(form["from"]).strip(),
        str(form["to"]).strip(),
        mode=form["mode"],
        reason=str(form["reason"]).strip(),
        drain_timeout_s=form["drain_timeout_s"],
        include_followers=form["include_followers"],
        unread=form["unread"],
    )


def _names(form: Mapping[str, Any], field: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in (str(one).strip() for one in form.get(field) or ()) if name))
