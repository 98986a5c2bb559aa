"""The instance in a client id: the client id without the parts that libraries add.

Some of these parts change at each start. A form is a pattern with `{instance}`, followed by `{uuid}` and `{number}`:
`{instance}-{uuid}-StreamThread-{number}`. It is matched from the end: each part can begin at one place only, so the
cost is linear in the length of the client id.
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
