"""The instance in a client id: what is left without the parts that libraries add, some of them anew at each start.

A form is a text with `{instance}`, and behind it `{uuid}` and `{number}`, as `{instance}-{uuid}-StreamThread-{number}`.
It is matched from its end: each part has one place where it can begin, so any client id costs its length.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

STREAMS, CONNECT = "streams", "connect"
NAMED_FORMS: dict[str, tuple[str, ...]] = {
    STREAMS: (
        *(
            f"{{instance}}{start}{role}"
            for start in ("-{uuid}-StreamThread-{number}", "-StreamThread-{number}")
            for role in ("-consumer", "-restore-consumer", "-producer", "-{number}_{number}-producer")
        ),
        "{instance}-{uuid}-global-consumer",
        "{instance}-global-consumer",
        "{instance}-{uuid}-admin",
    ),
    CONNECT: tuple(
        f"connector-{role}-{{instance}}-{{number}}" for role in ("producer", "consumer", "adminclient", "dlq-producer")
    ),
}
"""Of Kafka Streams with and without a `client.id` (`StreamsConfig`), and of connectors' tasks (Connect's `Worker`)."""
MAX_LENGTH = 255
"""A longer client id is an instance as it is."""
MAX_FORMS = 20
MAX_DIGITS = 20
_PART = re.compile(r"\{[^{}]*\}|[^{}]+|.", re.DOTALL)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_UUID_LENGTH = 36
_DIGITS = frozenset("0123456789")


class FormError(ValueError):
    """A form that cannot be; the text says why."""


class Form(NamedTuple):
    """:ivar before: what stands before the instance.
    :ivar behind: the parts behind it.
    """

    before: str
    behind: tuple[str, ...]

    def instance_in(self, client_id: str) -> str | None:
        """None: the client id has another form."""
        end = len(client_id)
        for part in reversed(self.behind):
            end = _begin_of(part, client_id, end)
            if end <= 0:
                return None
        return client_id[len(self.before) : end] or None if client_id.startswith(self.before) else None


def read_forms(text: str) -> tuple[Form, ...]:
    """The forms that `text` stands for: a name, or a form.

    :raises FormError: it is neither.
    """
    return tuple(map(_read, NAMED_FORMS.get(text, (text,))))


def instance_of(client_id: str, forms: Sequence[str]) -> str:
    """`client_id` without what the forms take away, as often as one of them fits: so what is left fits none."""
    if not forms or len(client_id) > MAX_LENGTH:
        return client_id
    known = _forms(tuple(forms))
    found: str | None = client_id
    while found is not None:
        client_id = found
        found = next((left for form in known if (left := form.instance_in(client_id)) is not None), None)
    return client_id


@lru_cache(maxsize=1_000)
def _forms(texts: tuple[str, ...]) -> tuple[Form, ...]:
    """Those that this version does not know, because a newer one has written them, take nothing away."""
    found: list[Form] = []
    for text in texts:
        try:
            found += read_forms(text)
        except FormError:
            continue
    return tuple(found)


def _read(text: str) -> Form:
    parts = _PART.findall(text)
    if parts.count("{instance}") != 1 or len(text) > MAX_LENGTH:
        raise FormError(
            f"{text[:80]!r} is no form: it has to name {{instance}} once, in {MAX_LENGTH} characters at most"
        )
    at = parts.index("{instance}")
    before, behind = "".join(parts[:at]), tuple(parts[at + 1 :])
    if at > 1 or "{" in before or "}" in before:
        raise FormError(f"{text!r}: only text may stand before {{instance}}")
    if not before and not behind:
        raise FormError(f"{text!r} takes nothing away")
    for left, part in zip(("{instance}", *behind), behind, strict=False):
        if (part[0] in "{}") and part not in ("{uuid}", "{number}"):
            raise FormError(f"{text!r}: {part} is neither {{uuid}} nor {{number}}")
        if part[0] == "{" and left[0] == "{":
            raise FormError(f"{text!r}: between {left} and {part} some text has to say where the one ends")
        if (part == "{number}" and left[-1] in _DIGITS) or (left == "{number}" and part[0] in _DIGITS):
            raise FormError(f"{text!r}: no digit may stand next to {{number}}")
    return Form(before, behind)


def _begin_of(part: str, text: str, end: int) -> int:
    """Where `part`, which ends at `end`, begins in `text`; -1: it is not there."""
    if part == "{number}":
        begin = end
        while begin > 0 and text[begin - 1] in _DIGITS and end - begin < MAX_DIGITS:
            begin -= 1
        return begin if begin < end else -1
    if part == "{uuid}":
        begin = end - _UUID_LENGTH
        return begin if begin >= 0 and _UUID.fullmatch(text, begin, end) else -1
    return end - len(part) if text.endswith(part, 0, end) else -1
