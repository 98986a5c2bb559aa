"""The paths by which gateways poll what discovery goes by."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from ha_core.model.numeral import whole_number
from ha_core.platform.discovery import ADDRESSES, PARTS, DiscoveryFeed
from ha_core.platform.errors import InvalidError
from ha_core.platform.platform import Platform
from ha_core.platform.words import short

_MAX_VERSION = (1 << 63) - 1


def add_discovery(router: APIRouter, registry: Platform) -> None:
    discovery = DiscoveryFeed(registry)

    @router.get("/discovery")
    def all_parts(request: Request) -> dict[str, Any]:
        """At the start without a version; later with those that are known, one for each part."""
        known = {name: _version(name, said) for name, said in request.query_params.items()}
        versions, parts = discovery.changed(known)
        return {"versions": versions, "changed": parts}

    @router.get("/addresses")
    def addresses(version: Annotated[int, Query(ge=0, le=_MAX_VERSION)] = 0) -> dict[str, Any]:
        newest, found = discovery.part(ADDRESSES, version)
        return {"version": newest, "addresses": found}


def _version(name: str, said: str) -> int:
    if name not in PARTS:
        raise InvalidError(f"{short(name)} is no part of discovery; there are {', '.join(PARTS)}")
    version = whole_number(said, _MAX_VERSION)
    if version is None:
        raise InvalidError(f"{name}={short(said)}: a version is a whole number, as it was told")
    return version
