"""Allowed names, texts and addresses, for all kinds.

SQL needs no escaping: names are parameters of statements. Refused are characters that logs, terminals or databases
do not show or store faithfully.
"""

import re
import unicodedata
from typing import Annotated

from pydantic import AfterValidator, Field

from ha_core.model import access

MAX_NAME = 255
"""Characters of a user, group or transactional id. Kafka sets no bound; an index of PostgreSQL does."""
MAX_TOPIC = 249
MAX_REASON = 1000
DEFAULT_ENTITY = "<default>"
"""Kafka's name, in quotas, for all users without a quota of their own."""
EVERYBODY = "*"
_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")
_CLUSTER = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories: control and formatting characters, surrogates, line separators."""


def plain(text: str) -> str:
    """:raises ValueError: it has characters that are invisible, or that databases cannot store."""
    for position, character in enumerate(text):
        if unicodedata.category(character) in _UNSEEN:
            raise ValueError(f"{short(text)} has U+{ord(character):04X} at position {position}; leave it out")
    return text


def name(text: str) -> str:
    """:raises ValueError: it is no valid name of a user, a group or an id."""
    if text.strip() != text:
        raise ValueError(f"{short(text)} begins or ends with white space; leave it out")
    if text in {".", ".."}:
        raise ValueError(f"{short(text)} is no name: it has another meaning in paths")
    return plain(text)


def user_name(text: str) -> str:
    """:raises ValueError: `*` and `<default>` do not name a single user."""
    if text in {EVERYBODY, DEFAULT_ENTITY}:
        raise ValueError(f"{short(text)} has a meaning of its own in rules and quotas; choose another name")
    return name(text)


def topic_name(text: str) -> str:
    """:raises ValueError: Kafka allows no such topic name."""
    if text in {".", ".."} or len(text) > MAX_TOPIC or not _TOPIC.fullmatch(text):
        raise ValueError(
            f"{short(text)}: no topic name; give 1 to {MAX_TOPIC} letters, digits, dot, dash, underscore, "
            "and not . or .."
        )
    return text


def cluster_name(text: str) -> str:
    """:raises ValueError: it is no valid cluster name."""
    if not _CLUSTER.fullmatch(text):
        raise ValueError(f"{short(text)}: at most 63 of a-z, 0-9, dash, underscore; a letter or digit first")
    return text


def address(text: str) -> str:
    """The canonical form of an address; an IPv4-mapped IPv6 address becomes IPv4.

    :raises ValueError: it is no address.
    """
    try:
        return access.address(text)
    except ValueError:
        raise ValueError(f"{short(text)} is no address; write one without a name, range or port") from None


def storable(text: str) -> bool:
    """Whether databases can be asked for it: none stores surrogates, PostgreSQL no U+0000. No entry has such a name."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def short(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME), AfterValidator(name)]
UserName = Annotated[str, Field(min_length=1, max_length=MAX_NAME), AfterValidator(user_name)]
TopicName = Annotated[str, Field(min_length=1), AfterValidator(topic_name)]
ClusterName = Annotated[str, Field(min_length=1), AfterValidator(cluster_name)]
Words = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(name)]
"""One line of free text; may be empty."""
Reason = Annotated[str, Field(min_length=1, max_length=MAX_REASON), AfterValidator(name)]
