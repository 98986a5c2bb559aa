"""Reads a `.properties` file, and resolves the references in its values (KIP-297, KIP-421).

A reference is `${provider:path:key}` or `${provider:key}`. `config.providers` names the providers and their Java
classes: environment variables, properties files, and folders with one file per key. References are resolved once, when
the file is read; references in a resolved value are not.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import javaproperties

from ha_core.flows.errors import FlowError
from ha_core.flows.filters import parts
from ha_core.model.linear_pattern import LinearPattern, PatternError

MAX_BYTES = 1 << 20
"""Maximum size of the file, and of each file that a reference reads."""
PROVIDERS = "config.providers"
"""Key that names the providers. References in it, and in keys that begin with it, are not resolved."""
REFERENCE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
"""Groups: provider, path, key."""
_SHOWN = 100
"""Characters of a path in an error."""
_CLASSES = "org.apache.kafka.common.config.provider."


@dataclass(frozen=True)
class Property:
    """
    :ivar line: number in the file, from 1, for errors.
    :ivar referred: whether a part of the value comes from a reference.
    """

    value: str = field(repr=False)
    line: int
    referred: bool = False


def parse(text: str, name: str) -> dict[str, Property]:
    """Properties of a file, in the file's order.

    :param name: of the file, for errors.
    :raises FlowError: a key stands twice (Java takes the last one silently, which hides mistakes), or a character is
        written by a wrong number.
    """
    properties: dict[str, Property] = {}
    number = 1
    try:
        for element in javaproperties.parse(text):
            line, number = number, number + max(1, len(element.source.splitlines()))
            if not isinstance(element, javaproperties.KeyValue):
                continue
            key, value = element.key, element.value
            if key in properties:
                raise FlowError(
                    f"{name}, line {line}: {key} is already set in line {properties[key].line}; remove one of them"
                )
            properties[key] = Property(value.rstrip(), line)
    except javaproperties.InvalidUEscapeError as error:
        raise FlowError(
            f"{name}: {error.escape} is no character; a backslash with u needs four hexadecimal digits, and a plain "
            "backslash is written twice"
        ) from None
    return properties


def read(path: Path) -> dict[str, Property]:
    """:raises FlowError: the file cannot be read."""
    # Java reads properties as ISO 8859-1; other characters are written as \\uXXXX.
    return parse(_text(path, "iso-8859-1"), str(path))


def resolve(properties: Mapping[str, Property], name: str, environment: Mapping[str, str]) -> dict[str, Property]:
    """Resolve the references in all properties.

    :param environment: environment variables, for `EnvVarConfigProvider`.
    :raises FlowError: a provider or a reference cannot be used. The text never shows a resolved value.
    """
    providers = dict(_providers(properties, name, environment))

    def resolved(key: str, found: Property) -> Property:
        def replace(match: re.Match[str]) -> str:
            provider, path, wanted = match.groups()
            if provider not in providers:
                return match.group()  # Kafka, too, keeps text that only looks like a reference
            value = providers[provider](path or "", wanted)
            if value is None:
                raise FlowError(f"{name}, line {found.line}: {key} refers to {match.group()}, which has no value here")
            return value

        value = REFERENCE.sub(replace, found.value)
        return Property(value, found.line, referred=value != found.value)

    return {key: found if key.startswith(PROVIDERS) else resolved(key, found) for key, found in properties.items()}


Provider = Callable[[str, str], str | None]
"""(path, key) → value."""


def _providers(
    properties: Mapping[str, Property], name: str, environment: Mapping[str, str]
) -> Iterator[tuple[str, Provider]]:
    listed = properties.get(PROVIDERS)
    for provider in parts(listed.value) if listed else ():
        key = f"{PROVIDERS}.{provider}.class"
        java = properties.get(key)
        if java is None:
            raise FlowError(f"{name}: {PROVIDERS} names {provider!r}, but {key} is not set")
        build = _BY_CLASS.get(java.value.removeprefix(_CLASSES))
        if build is None:
            known = ", ".join(_CLASSES + one for one in _BY_CLASS)
            raise FlowError(f"{name}, line {java.line}: {key}={java.value} is not known here; known are {known}")
        param = f"{PROVIDERS}.{provider}.param."
        yield provider, build({one.removeprefix(param): found.value for one, found in properties.items()}, environment)


def _environment(parameters: Mapping[str, str], environment: Mapping[str, str]) -> Provider:
    text = parameters.get("allowlist.pattern", ".*")
    try:
        pattern = LinearPattern(text)
    except PatternError as error:
        raise FlowError(f"allowlist.pattern={text} of a provider is no regular expression here ({error})") from None

    def look_up(_path: str, key: str) -> str | None:
        return environment.get(key) if pattern.matches(key) else None

    return look_up


def _file(parameters: Mapping[str, str], _environment: Mapping[str, str]) -> Provider:
    def look_up(path: str, key: str) -> str | None:
        file = _allowed(path, parameters)
        if file.exists() and not file.is_file():  # a pipe would keep the worker waiting
            raise FlowError(f"{file} is no regular file; a reference reads one")
        found = read(file).get(key)
        return None if found is None else found.value

    return look_up


def _directory(parameters: Mapping[str, str], _environment: Mapping[str, str]) -> Provider:
    def look_up(path: str, key: str) -> str | None:
        folder = _allowed(path, parameters)
        file = _resolved(str(folder / key))
        return _text(file, "utf-8") if file.parent == folder and file.is_file() else None

    return look_up


_BY_CLASS: dict[str, Callable[[Mapping[str, str], Mapping[str, str]], Provider]] = {
    "EnvVarConfigProvider": _environment,
    "FileConfigProvider": _file,
    "DirectoryConfigProvider": _directory,
}


def _allowed(path: str, parameters: Mapping[str, str]) -> Path:
    """:raises FlowError: `allowed.paths` of the provider does not include it (KIP-993)."""
    found = _resolved(path)
    allowed = [_resolved(part) for part in parts(parameters.get("allowed.paths", ""))]
    if allowed and not any(found.is_relative_to(one) for one in allowed):
        raise FlowError(f"{found} is not in the provider's allowed.paths: {', '.join(map(str, allowed))}")
    return found


def _resolved(path: str) -> Path:
    try:
        found = Path(path).resolve()
        found.exists()  # finds names that are too long
    except (OSError, ValueError) as error:
        raise FlowError(f"{path[:_SHOWN]!r} is no path of a file: {error.args[-1]}") from None
    return found


def _text(path: Path, encoding: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise FlowError(f"{path} cannot be read: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise FlowError(f"{path} has more than {MAX_BYTES} bytes; a configuration is smaller")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise FlowError(f"{path} is not text in {encoding}: {error}") from None
