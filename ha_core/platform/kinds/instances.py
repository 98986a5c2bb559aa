"""Instances: client ids that the platform has issued, each to one user, for the topics that the client will use."""

import re
import secrets
from collections.abc import Iterator
from string import ascii_lowercase
from typing import Annotated

from pydantic import AfterValidator, Field

from ha_core.platform.entry import Entry, Reference
from ha_core.platform.words import Name, TopicName, UserName, Words

MAX_TOPICS = 100
ISSUED_LETTERS = 12
"""Random letters. No digits, so that no form of client ids strips them as a number."""
_MOST_OF_USER = 100
_UNUSUAL = re.compile(r"[^a-zA-Z0-9._-]+")


def _each_once(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(values)))


class Instance(Entry):
    KIND = "instances"
    ROLE = "instance"

    name: Name
    """The client id. It is unique among all users."""
    user: UserName
    topics: Annotated[
        tuple[TopicName, ...], Field(min_length=1, max_length=MAX_TOPICS, strict=False), AfterValidator(_each_once)
    ]
    description: Words = ""

    def mentions(self) -> Iterator[Reference]:
        yield Reference("user", self.user, needed=True)
        yield from (Reference("topic", topic) for topic in self.topics)


def new_name(user: str) -> str:
    """A random client id, one of 26^12. If it exists already, it is refused like any key."""
    drawn = "".join(secrets.choice(ascii_lowercase) for _ in range(ISSUED_LETTERS))
    return f"{_UNUSUAL.sub('-', user)[:_MOST_OF_USER]}-{drawn}"
