"""Reads and checks the configuration before anything starts."""

from collections.abc import Iterable
from pathlib import Path
from typing import get_args

from pydantic import BaseModel, ValidationError

from gateway.config.config import Config
from gateway.config.section import ConfigError, parsed, text_of


def read(path: Path | str) -> str:
    """The text of a configuration file.

    :raises ConfigError: it cannot be read.
    """
    return text_of(Path(path), "the configuration")


def load(path: Path | str, text: str | None = None) -> Config:
    """Reads and checks a configuration with the files that it names.

    :param text: the text of the file, if it was read already (`read`).
    :raises ConfigError: one line per fault.
    """
    file = Path(path)
    try:
        config = Config.model_validate(parsed(file, read(file) if text is None else text))
    except ValidationError as error:
        raise ConfigError("\n".join(_lines(file, error))) from None
    config.read_files(file)
    return config


def _lines(file: Path, error: ValidationError) -> Iterable[str]:
    for fault in error.errors():
        key = ".".join(str(part) for part in fault["loc"]) or "the whole file"
        kind, text = fault["type"], fault["msg"].removeprefix("Value error, ")
        if kind == "missing":
            yield f"{file}: {key}: missing; add it"
        elif kind == "extra_forbidden":
            location = fault["loc"]
            keys = ", ".join((_section(str(location[0])) if len(location) > 1 else Config).model_fields)
            yield f"{file}: {key}: {_short(fault['input'])}: no such key here; known keys are {keys}"
        elif kind == "value_error":
            yield f"{file}: {key}: {text}" if fault["loc"] else f"{file}: {text}"
        else:
            yield f"{file}: {key}: {_short(fault['input'])}: {text}; correct the value"


def _section(key: str) -> type[BaseModel]:
    annotation = Config.model_fields[key].annotation
    kinds = (annotation, *get_args(annotation))  # an optional section is a union
    return next(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
