"""Declarations of MirrorMaker 2 flows, which workers on any host run."""

import re

from pydantic import Field

from ha_core.model.document import FEW_BYTES, Document

MAX_DECLARED_CHARACTERS = 1 << 18
"""Maximum length of a declaration's text. A ZooKeeper node has at most 1 MB; a flow takes a few hundred characters."""
MAX_DECLARATIONS = 1_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class FlowDeclaration(Document):
    """`/flow_declarations/{name}`: the keys of an `mm2.properties`, which workers follow (`mirror-maker --declared`).

    A declaration contains no password: it has references instead, which each worker resolves on its own host.
    """

    FOLDER = "/flow_declarations"
    REVISED = True
    PLAIN_BYTES = FEW_BYTES

    name: str
    text: str = Field(max_length=MAX_DECLARED_CHARACTERS)
    """Properties in Java's format, in ASCII and without comments."""
    like_3_9: bool = False
    """Whether missing keys have Kafka 3.9's defaults, where 4.3 has others."""
    revision: int = Field(ge=1)
    """Number of the declaration's version: 1 at first, raised by each change, and 1 again after a withdrawal."""
    by: str
    since: str
    """Time of the last change, in UTC, ISO 8601."""
    reason: str


def is_declaration_name(text: str) -> bool:
    """Whether a declaration may have this name: letters, digits, `.`, `_` and `-`, at most 100."""
    return _NAME.fullmatch(text) is not None
