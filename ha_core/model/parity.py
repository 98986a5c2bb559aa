"""The last comparison of two clusters that stand in for each other."""

from __future__ import annotations

from typing import Literal

from ha_core.model.document import Document, Part

DriftKind = Literal["topic", "partitions", "setting", "right", "offsets", "quota", "schema"]
MAX_DRIFTS = 500
"""Kept in a document; more are counted."""


class Drift(Part):
    """One thing that differs.

    :ivar about: the topic, quota or subject.
    :ivar what: the setting, rule or version; "": the thing itself is missing.
    :ivar source: its value in the source; "": it lacks there.
    :ivar target: its value in the target.
    :ivar command: mends it, or shows more of it where no command does.
    """

    kind: DriftKind
    about: str
    what: str = ""
    source: str = ""
    target: str = ""
    command: str = ""


class Parity(Document):
    """`/parity/{source}@{target}`."""

    FOLDER = "/parity"
    KEY = "pair"

    pair: str
    source: str
    target: str
    at: str
    since: str = ""
    """Time of the first check that found a drift; "": the last one found none."""
    drifts: tuple[Drift, ...] = ()
    left_out: int = 0
    """Further drifts."""
    not_compared: tuple[str, ...] = ()
    """Parts that could not be compared, with the reason."""
    ignored: tuple[str, ...] = ()
    """Settings, by names or patterns, that may differ; later comparisons of the pair take them, too."""
    registries: tuple[str, str] = ("", "")
    """URLs of the source's and the target's schema registries; likewise."""
    topics: int = 0
    """Topics that both clusters have."""

    @property
    def count(self) -> int:
        return len(self.drifts) + self.left_out


def pair_of(source: str, target: str) -> str:
    return f"{source}@{target}"
