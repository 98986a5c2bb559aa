"""What names, texts and addresses may be, for all kinds.

SQL means nothing here: names are parameters of statements, never part of them. What is refused is what no log, no
terminal and no database shows or keeps faithfully.
"""

from __future__ import annotations

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
"""In quotas, as Kafka writes it: whoever has none of his own."""
EVERYBODY = "*"
_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")
_CLUSTER = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories: control and formatting characters, halves of pairs, separators of lines."""


def plain(said: str) -> str:
    """:raises ValueError: it has characters that nobody sees, or that no database keeps."""
    for position, character in enumerate(said):
        if unicodedata.category(character) in _UNSEEN:
            raise ValueError(f"{short(said)} has U+{ord(character):04X} at position {position}; leave it out")
    return said


def name(said: str) -> str:
    """:raises ValueError: a user, a group or an id cannot be called so."""
    if said.strip() != said:
        raise ValueError(f"{short(said)} begins or ends with white space; leave it out")
    if said in {".", ".."}:
        raise ValueError(f"{short(said)} is no name: paths have another meaning for it")
    return plain(said)


def user_name(said: str) -> str:
    """:raises ValueError: `*` and `<default>` mean other users than one of that name."""
    if said in {EVERYBODY, DEFAULT_ENTITY}:
        raise ValueError(f"{short(said)} has a meaning of its own in rules and quotas; choose another name")
    return name(said)


def topic_name(said: str) -> str:
    """:raises ValueError: Kafka makes no such topic."""
    if said in {".", ".."} or len(said) > MAX_TOPIC or not _TOPIC.fullmatch(said):
        raise ValueError(
            f"{short(said)}: no topic can have it; 1 to {MAX_TOPIC} of letters, digits, dot, dash, underscore, "
            "and not . or .."
        )
    return said


def cluster_name(said: str) -> str:
    """:raises ValueError: clusters have other names."""
    if not _CLUSTER.fullmatch(said):
        raise ValueError(f"{short(said)}: small letters, digits, dash, underscore; at most 63, a letter or digit first")
    return said


def address(said: str) -> str:
    """One way to write each address; an IPv4 address that an IPv6 socket shows is itself.

    :raises ValueError: it is none.
    """
    try:
        return access.address(said)
    except ValueError:
        raise ValueError(f"{short(said)} is no address; write one, without a name, range or port") from None


def storable(said: str) -> bool:
    """Whether a database can be asked for it: none has halves of pairs, and PostgreSQL no U+0000. There is nothing of
    such a name."""
    return "\0" not in said and not any("\ud800" <= character <= "\udfff" for character in said)


def short(said: object) -> str:
    text = ascii(said)
    return text if len(text) <= 80 else f"{text[:77]}..."


Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME), AfterValidator(name)]
UserName = Annotated[str, Field(min_length=1, max_length=MAX_NAME), AfterValidator(user_name)]
TopicName = Annotated[str, Field(min_length=1), AfterValidator(topic_name)]
ClusterName = Annotated[str, Field(min_length=1), AfterValidator(cluster_name)]
Words = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(name)]
"""Free text of one line; may be empty."""
Reason = Annotated[str, Field(min_length=1, max_length=MAX_REASON), AfterValidator(name)]
