"""The paths by which gateways poll the discovery feed."""

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
