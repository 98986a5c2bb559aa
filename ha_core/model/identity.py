"""Identity of a request's sender, and the `HA#user#topic` form of a client id."""

from __future__ import annotations

import re
from typing import NamedTuple

ANONYMOUS = "anonymous"
_HA_CLIENT_ID = re.compile("HA#([^#]+)#(.+)", re.DOTALL)


class Identity(NamedTuple):
    """A client as a gateway sees it. `topic_hint` is the topic that an HA client id names, else None."""

    user: str
    instance: str
    topic_hint: str | None = None


def identify(authenticated_user: str | None, client_id: str | None) -> Identity:
    """The identity of a connection's request.

    Without a login, an HA client id (`HA#user#topic`) names user and topic. An authenticated user always wins:
    otherwise a client could borrow another user's bindings by choosing a client id.
    """
    instance = client_id or ""
    match = _HA_CLIENT_ID.fullmatch(instance)
    hint_user, hint_topic = match.groups() if match else (None, None)
    user = authenticated_user or hint_user or ANONYMOUS
    return Identity(user, instance, hint_topic if user == hint_user else None)
