"""Identities of requests' senders, and their bindings: the cluster that serves each, on four levels per user.

The instance of an identity is its client id without the parts that libraries add, some of which change at each start.
A form is a pattern with `{instance}`, followed by `{uuid}` and `{number}`: `{instance}-{uuid}-StreamThread-{number}`.
It is matched from the end: each part can begin at one place only, so the cost is linear in the length of the client id.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from pydantic import Field

from ha_core.model.document import Document

ANONYMOUS = "anonymous"
_HA_CLIENT_ID = re.compile("HA#([^#]+)#(.+)", re.DOTALL)
NEAREST = "nearest"
"""As `read`: the cluster in the gateway's own zone."""


STREAMS, CONNECT = "streams", "connect"
NAMED_FORMS: dict[str, tuple[str, ...]] = {
    STREAMS: (
        *(
            f"{{instance}}{start}{role}"
            for start in ("-{uuid}-StreamThread-{number}", "-StreamThread-{number}")
            for role in ("-consumer", "-restore-consumer", "-producer", "-{number}_{number}-producer")
        ),
        # Threads that only restore state, seen with 4.3.1.
        "{instance}-{uuid}-StateUpdater-{number}-restore-consumer",
        "{instance}-StateUpdater-{number}-restore-consumer",
        "{instance}-{uuid}-global-consumer",
        "{instance}-global-consumer",
        "{instance}-{uuid}-admin",
    ),
    CONNECT: tuple(
        f"connector-{role}-{{instance}}-{{number}}" for role in ("producer", "consumer", "adminclient", "dlq-producer")
    ),
}
"""Client ids of Kafka Streams, with and without `client.id` (`StreamsConfig`), and of connector tasks (`Worker`)."""
MAX_LENGTH = 255
"""A longer client id is the instance as a whole: no form is applied."""
MAX_FORMS = 20
MAX_DIGITS = 20
_PART = re.compile(r"\{[^{}]*\}|[^{}]+|.", re.DOTALL)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_UUID_LENGTH = 36
_DIGITS = frozenset("0123456789")


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


class FormError(ValueError):
    """An invalid form; the text says why."""


class Form(NamedTuple):
    """:ivar before: text before the instance.
    :ivar after: parts after the instance.
    """

    before: str
    after: tuple[str, ...]

    def instance_in(self, client_id: str) -> str | None:
        """The instance; None: the client id does not match."""
        end = len(client_id)
        for part in reversed(self.after):
            end = _begin_of(part, client_id, end)
            if end <= 0:
                return None
        return client_id[len(self.before) : end] or None if client_id.startswith(self.before) else None


def read_forms(text: str) -> tuple[Form, ...]:
    """The forms that `text` names, or the form that it is.

    :raises FormError: `text` is neither a name nor a valid form.
    """
    return tuple(map(_read, NAMED_FORMS.get(text, (text,))))


def instance_of(client_id: str, forms: Sequence[str]) -> str:
    """Strip `client_id` by the forms until none matches."""
    if not forms or len(client_id) > MAX_LENGTH:
        return client_id
    parsed = _forms(tuple(forms))
    stripped: str | None = client_id
    while stripped is not None:
        client_id = stripped
        stripped = next((left for form in parsed if (left := form.instance_in(client_id)) is not None), None)
    return client_id


@lru_cache(maxsize=1_000)
def _forms(texts: tuple[str, ...]) -> tuple[Form, ...]:
    """The forms of `texts`. Skips those that only a newer version can parse."""
    forms: list[Form] = []
    for text in texts:
        try:
            forms += read_forms(text)
        except FormError:
            continue
    return tuple(forms)


def _read(text: str) -> Form:
    parts = _PART.findall(text)
    if parts.count("{instance}") != 1 or len(text) > MAX_LENGTH:
        raise FormError(
            f"{text[:80]!r} is no form: a form has {{instance}} exactly once, and at most {MAX_LENGTH} characters"
        )
    at = parts.index("{instance}")
    before, after = "".join(parts[:at]), tuple(parts[at + 1 :])
    if at > 1 or "{" in before or "}" in before:
        raise FormError(f"{text!r}: before {{instance}} only plain text is allowed")
    if not before and not after:
        raise FormError(f"{text!r} strips nothing from a client id")
    for left, part in zip(("{instance}", *after), after, strict=False):
        if (part[0] in "{}") and part not in ("{uuid}", "{number}"):
            raise FormError(f"{text!r}: {part} is neither {{uuid}} nor {{number}}")
        if part[0] == "{" and left[0] == "{":
            raise FormError(f"{text!r}: {left} and {part} need some text between them")
        if (part == "{number}" and left[-1] in _DIGITS) or (left == "{number}" and part[0] in _DIGITS):
            raise FormError(f"{text!r}: no digit is allowed next to {{number}}")
    return Form(before, after)


def _begin_of(part: str, text: str, end: int) -> int:
    """Start of the `part` that ends at `end` of `text`; -1: no match."""
    if part == "{number}":
        begin = end
        while begin > 0 and text[begin - 1] in _DIGITS and end - begin < MAX_DIGITS:
            begin -= 1
        return begin if begin < end else -1
    if part == "{uuid}":
        begin = end - _UUID_LENGTH
        return begin if begin >= 0 and _UUID.fullmatch(text, begin, end) else -1
    return end - len(part) if text.endswith(part, 0, end) else -1


class UserBindings(Document):
    """`/bindings/{user}`: every level of one user. Values are cluster names."""

    FOLDER = "/bindings"
    KEY = "user"
    REPLICATED = True

    user: str = Field(min_length=1, max_length=255)
    cluster: str | None = None
    """Level `user`."""
    instances: dict[str, str] = {}
    """Level `user+instance`, by client id."""
    topics: dict[str, str] = {}
    """Level `user#topic`."""
    groups: dict[str, str] = {}
    """Level `user##group`."""
    client_ids: tuple[str, ...] = ()
    """Forms of client ids, by name or in full, that strip the parts that libraries add (`model.instance`)."""
    read: str | None = None
    """Cluster from whose copies mirrored topics are read, or `NEAREST`; None: they are read from their writer."""
    local_names: str | None = Field(default=None, min_length=1, max_length=255)
    """Alias of a flow's source: its remote topics in the cluster of the user's clients are shown to these under the
    source's names. None: each topic has its own name."""

    @property
    def empty(self) -> bool:
        bound = self.cluster is not None or self.read is not None or self.client_ids or self.local_names is not None
        return not (bound or self.instances or self.topics or self.groups)

    def instance(self, client_id: str) -> str:
        """The instance of this client id; an instance is its own."""
        return instance_of(client_id, self.client_ids)
