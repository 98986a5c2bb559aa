"""Clusters and their bootstrap addresses."""

from typing import Annotated

from pydantic import AfterValidator, Field

from ha_core.model.cluster import parse_bootstrap
from ha_core.platform.entry import Entry
from ha_core.platform.words import ClusterName, Name, Words, plain

MAX_BOOTSTRAP = 4096


def _addresses(text: str) -> str:
    parse_bootstrap(plain(text))
    return text


class RegisteredCluster(Entry):
    KIND = "clusters"
    ROLE = "cluster"

    name: ClusterName
    bootstrap: Annotated[str, Field(max_length=MAX_BOOTSTRAP), AfterValidator(_addresses)]
    """`host:port[,host:port…]`"""
    security: Name | None = None
    """Security profile, by its name in the configurations of gateways and tasks; None: unchanged."""
    zone: Words = ""
    owner: Words = ""
    contact: Words = ""
