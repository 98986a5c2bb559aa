"""Flows of MirrorMaker 2 that operators declare, for workers on any host."""

import re

from pydantic import Field

from ha_core.model.document import FEW_BYTES, Document

MAX_DECLARED_CHARACTERS = 1 << 18
"""A node of ZooKeeper has at most 1 MB; a flow takes some hundred characters."""
MAX_DECLARATIONS = 1_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class FlowDeclaration(Document):
    """`/flow_declarations/{name}`: the keys of an `mm2.properties`. Workers follow it (`mirror-maker --declared`).

    It has no password: such values are references, which each worker resolves on its own host.
    """

    FOLDER = "/flow_declarations"
    REVISED = True
    PLAIN_BYTES = FEW_BYTES

    name: str
    text: str = Field(max_length=MAX_DECLARED_CHARACTERS)
    """Properties, as Java reads them, in ASCII and without comments."""
    like_3_9: bool = False
    """Whether keys that it lacks have Kafka 3.9's defaults, where 4.3 has others."""
    revision: int = Field(ge=1)
    """1 at first, one more with each change. After a withdrawal it begins at 1 again."""
    by: str
    since: str
    """UTC, ISO 8601; when it was changed last."""
    reason: str


def is_declaration_name(text: str) -> bool:
    """Whether a declaration may have this name: letters, digits, `.`, `_` and `-`, at most 100."""
    return _NAME.fullmatch(text) is not None
