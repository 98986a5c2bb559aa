"""Schemas of a registry with Confluent's REST interface."""

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import httpx

REGISTRY_S = 10.0
MAX_ANSWER_BYTES = 8 << 20
MAX_SUBJECTS = 10_000


class RegistryError(Exception):
    """A registry does not answer, or answers something else than schemas."""


def schemas_of(registry: str) -> Mapping[str, Mapping[int, str]]:
    """Subject → version → schema text, of a registry with Confluent's REST interface.

    :raises RegistryError: it does not answer, or answers something else.
    """
    base = registry.rstrip("/")
    with httpx.Client(timeout=REGISTRY_S, trust_env=False, follow_redirects=False) as client:
        subjects = _json(client, f"{base}/subjects")
        if not isinstance(subjects, list) or len(subjects) > MAX_SUBJECTS:
            raise RegistryError(f"{base}/subjects is no list of at most {MAX_SUBJECTS:,} subjects")
        return {str(subject): dict(_versions(client, base, str(subject))) for subject in subjects}


def _versions(client: httpx.Client, base: str, subject: str) -> Iterator[tuple[int, str]]:
    address = f"{base}/subjects/{quote(subject, safe='')}/versions"
    versions = _json(client, address)
    if not isinstance(versions, list) or not all(isinstance(version, int) for version in versions):
        raise RegistryError(f"{address} is no list of versions")
    for version in versions:
        found = _json(client, f"{address}/{version}")
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise RegistryError(f"{address}/{version} has no schema")
        yield version, f"{found.get('schemaType', 'AVRO')} id {found.get('id')}: {_canonical(found['schema'])}"


def _canonical(schema: str) -> str:
    """Without differences of spaces, where the schema is JSON."""
    try:
        return json.dumps(json.loads(schema), sort_keys=True, separators=(",", ":"))
    except ValueError:
        return schema


def _json(client: httpx.Client, address: str) -> Any:
    body = bytearray()
    try:
        with client.stream("GET", address) as answer:
            for part in answer.iter_bytes():
                body += part
                if len(body) > MAX_ANSWER_BYTES:
                    raise RegistryError(f"{address} answers more than {MAX_ANSWER_BYTES >> 20} MiB")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise RegistryError(f"{address} does not answer: {error or type(error).__name__}") from error
    if answer.status_code != httpx.codes.OK:
        raise RegistryError(f"{address} answers {answer.status_code}")
    try:
        found = json.loads(body)
    except ValueError as error:
        raise RegistryError(f"{address} answers something that is not JSON") from error
    if not isinstance(found, list | dict):
        raise RegistryError(f"{address} answers neither a list nor an object")
    return found
