"""The base of all sections of the configuration, and the reading of files that they name."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field

Port = Annotated[int, Field(ge=1, le=65_535)]
Host = Annotated[str, Field(min_length=1, max_length=255)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Ten times as fast where libyaml is installed: a file may have ten thousand rules."""
_MAX_FILE_BYTES = 16 * 1024 * 1024
_MIN_SECRET = 16
MAX_FAULTS = 20
Content = TypeVar("Content")


class ConfigError(Exception):
    """Errors of a configuration, one line each: file, key, value, remedy."""


class FaultyDocumentError(Exception):
    """:ivar faults: the faults of a document, each with its place; only the first 20 are named."""

    def __init__(self, faults: list[str]) -> None:
        more = len(faults) - MAX_FAULTS
        self.faults = faults[:MAX_FAULTS] + ([f"… and {more} more"] if more > 0 else [])
        super().__init__("\n".join(self.faults))


class ConfigSection(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def text_of(file: Path, key: str) -> str:
    """:param key: names the file in errors.
    :raises ConfigError: it cannot be read.
    """
    try:
        with file.open("rb") as stream:
            data = stream.read(_MAX_FILE_BYTES + 1)
        if len(data) > _MAX_FILE_BYTES:
            raise ConfigError(f"{key}: {file}: longer than {_MAX_FILE_BYTES} bytes; this is not the right file")
        return data.decode()
    except OSError as error:
        raise ConfigError(f"{key}: {file}: {error.strerror}; give the path of a readable file") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{key}: {file}: not UTF-8 at byte {error.start}; save it as UTF-8") from None


def secret_of(file: Path, key: str) -> bytes:
    """Raises as `text_of` does."""
    secret = text_of(file, key).strip()
    if len(secret) < _MIN_SECRET:
        raise ConfigError(f"{key}: {file}: shorter than {_MIN_SECRET} characters; write random ones into it")
    return secret.encode()


def document_of(file: Path, key: str) -> dict[Any, Any]:
    """The YAML of a file; raises as `text_of` does."""
    return parsed(file, text_of(file, key))


def content_of(file: Path, key: str, parse: Callable[[Mapping[Any, Any]], Content]) -> Content:
    """
    :param parse: raises FaultyDocumentError.
    :raises ConfigError: one line per fault; none of the file is used.
    """
    try:
        return parse(document_of(file, key))
    except FaultyDocumentError as error:
        raise ConfigError("\n".join(f"{file}: {fault}" for fault in error.faults)) from None


def parsed(file: Path, text: str) -> dict[Any, Any]:
    """:raises ConfigError: the text is no YAML, or no mapping."""
    try:
        document = yaml.load(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "somewhere"
        raise ConfigError(f"{file}: {where}: {error.problem}; correct the YAML there") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{file}: {error}; correct the YAML") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{file}: holds {type(document).__name__}; write `key: value` lines")
    return document
