"""The feed for discovery and its paths: addresses of clusters and settings, in parts that each have a version.

A gateway with the newest version of a part gets only that version, so frequent polling is cheap. Deletions raise a
version like any other change.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from sqlalchemy import func, select

from ha_core.model.numeral import whole_number
from ha_core.platform.errors import InvalidError
from ha_core.platform.kinds.settings import TYPES
from ha_core.platform.platform import Platform
from ha_core.platform.reading import MAX_PAGE
from ha_core.platform.tables import CHANGES
from ha_core.platform.words import short

_MAX_VERSION = (1 << 63) - 1
ADDRESSES: Final = "addresses"
PARTS = (ADDRESSES, *TYPES)
"""The addresses of clusters, and the types of settings."""
_CLUSTERS = "clusters"

Part = Mapping[str, Any]
"""Name → address or value."""


class DiscoveryFeed:
    def __init__(self, registry: Platform) -> None:
        self._registry = registry

    def versions(self) -> dict[str, int]:
        """Versions of all parts; 0: no entry was ever written."""
        return {ADDRESSES: self._addresses_version(), **self.type_versions()}

    def type_versions(self) -> dict[str, int]:
        return dict.fromkeys(TYPES, 0) | self._registry.read.type_versions()

    def part(self, name: str, known: int) -> tuple[int, Part | None]:
        """The version of a part, and its content; None if the version is the `known` one."""
        if name == ADDRESSES:
            return self._addresses(known)
        of_type = self._registry.read.of_type(name, known)
        if of_type.values is None:
            return of_type.version, None
        return of_type.version, {str(value["name"]): value["value"] for value in of_type.values.values()}

    def changed(self, known: Mapping[str, int]) -> tuple[dict[str, int], dict[str, Part]]:
        """The versions of all parts, and the content of those whose version differs from the known one."""
        versions, parts = dict[str, int](), dict[str, Part]()
        for name, version in self.versions().items():
            versions[name] = version
            if version != known.get(name, -1):
                versions[name], found = self.part(name, -1)
                parts[name] = found or {}
        return versions, parts

    def _addresses_version(self) -> int:
        newest = select(func.max(CHANGES.c.changed_us)).where(CHANGES.c.kind == _CLUSTERS)
        with self._registry.database.reading() as connection:
            return int(connection.execute(newest).scalar() or 0)

    def _addresses(self, known: int) -> tuple[int, Part | None]:
        # The version first: content read after it is at least as new, and is read again if it is newer.
        version = self._addresses_version()
        if version == known:
            return version, None
        found: dict[str, str] = {}
        after: str | None = ""
        while after is not None:
            page = self._registry.read.page(_CLUSTERS, after, MAX_PAGE)
            found |= {
                entry.key: str(entry.entry.summary()["bootstrap"]) for entry in page.stored if entry.entry is not None
            }
            after = page.after
        return version, found


def add_discovery(router: APIRouter, discovery: DiscoveryFeed) -> None:
    @router.get("/discovery")
    def all_parts(request: Request) -> dict[str, Any]:
        """Without versions at the start; later with the known version of each part."""
        known = {name: _version(name, version) for name, version in request.query_params.items()}
        versions, parts = discovery.changed(known)
        return {"versions": versions, "changed": parts}

    @router.get("/addresses")
    def addresses(version: Annotated[int, Query(ge=0, le=_MAX_VERSION)] = 0) -> dict[str, Any]:
        newest, found = discovery.part(ADDRESSES, version)
        return {"version": newest, "addresses": found}


def _version(name: str, text: str) -> int:
    if name not in PARTS:
        raise InvalidError(f"{short(name)} is no part of discovery; parts are {', '.join(PARTS)}")
    version = whole_number(text, _MAX_VERSION)
    if version is None:
        raise InvalidError(f"{name}={short(text)}: a version is a whole number from an earlier answer")
    return version
