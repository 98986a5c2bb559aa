"""What a request says of its sender, and the `HA#user#topic` form of a client id."""

from __future__ import annotations

from typing import NamedTuple

ANONYMOUS = "anonymous"


class Identity(NamedTuple):
    """A client as seen by a gateway. `topic_hint` is the topic that an HA client id names, else None."""

    user: str
    instance: str
    topic_hint: str | None = None


def identify(authenticated_user: str | None, client_id: str | None) -> Identity:
    """The identity of a connection's request.

    An HA client id (`HA#user#topic`) names user and topic by itself where nobody authenticated. An authenticated
    user always wins: otherwise anyone could borrow another user's bindings by choosing a client id.
    """
    instance = client_id or ""
    hint_user: str | None = None
    hint_topic: str | None = None
    if instance.startswith("HA#"):
        parts = instance.split("#", 2)
        if len(parts) == 3 and parts[1] and parts[2]:
            hint_user, hint_topic = parts[1], parts[2]
    user = authenticated_user or hint_user or ANONYMOUS
    if hint_user is not None and hint_user != user:
        hint_topic = None
    return Identity(user, instance, hint_topic)
