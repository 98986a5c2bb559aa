"""Bindings as operators declare them in a YAML file.

```yaml
complete: false          # true: users that the file does not name lose their bindings
bindings:
  alice:
    cluster: east                    # level user
    instances: {billing-1: west}     # level user+instance
    topics: {orders: west}           # level user#topic
    groups: {billing: west}          # level user##group
    client_ids: [streams]            # strips what libraries add to client ids: streams, connect, or a form
    read: nearest                    # mirrored topics: from the copy in the gateway's zone, or in a cluster named here
    local_names: primary             # remote topics of flows from this source, in the user's cluster: by its names
  bob: {}                            # no bindings: they are removed
```
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ha_core.model import UserBindings

MAX_BYTES = 64 * 1024 * 1024


class DeclaredError(ValueError):
    """A declaration that cannot be read; names file, key and value."""


class _User(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    cluster: str | None = None
    instances: dict[str, str] = Field(default_factory=dict)
    topics: dict[str, str] = Field(default_factory=dict)
    groups: dict[str, str] = Field(default_factory=dict)
    client_ids: tuple[str, ...] = ()
    read: str | None = None
    local_names: str | None = Field(default=None, min_length=1, max_length=255)


class _BindingsDocument(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    complete: bool = False
    bindings: dict[str, _User | None]


@dataclass(frozen=True, slots=True)
class Declared:
    """The bindings that a file declares; a user with empty bindings is to have none."""

    bindings: Mapping[str, UserBindings]
    complete: bool


@dataclass(frozen=True, slots=True)
class BindingDifference:
    """One user whose stored bindings are not as declared. None means no document."""

    user: str
    before: UserBindings | None
    after: UserBindings | None

    def lines(self) -> tuple[str, ...]:
        """`user+instance: east → west`, one line per level that changes."""
        before, after = display_levels(self.before), display_levels(self.after)
        keys = [*before, *(key for key in after if key not in before)]
        return tuple(
            f"{key}: {before.get(key, '(none)')} → {after.get(key, '(none)')}"
            for key in keys
            if before.get(key) != after.get(key)
        )


def levels(bindings: UserBindings | None) -> dict[str, str]:
    """Every level of one user, written `user`, `user+instance`, `user#topic` or `user##group` → cluster; and the
    cluster for reads of mirrored topics, written `user reads`."""
    if bindings is None:
        return {}
    user = bindings.user
    return {
        **({user: bindings.cluster} if bindings.cluster is not None else {}),
        **{f"{user}+{name}": cluster for name, cluster in bindings.instances.items()},
        **{f"{user}#{name}": cluster for name, cluster in bindings.topics.items()},
        **{f"{user}##{name}": cluster for name, cluster in bindings.groups.items()},
        **({f"{user} reads": bindings.read} if bindings.read is not None else {}),
    }


def display_levels(bindings: UserBindings | None) -> dict[str, str]:
    """`levels`, and the user's other properties under the keys `USER client ids` and `USER local names of`."""
    shown = levels(bindings)
    if bindings is not None and bindings.client_ids:
        shown[f"{bindings.user} client ids"] = ", ".join(bindings.client_ids)
    if bindings is not None and bindings.local_names is not None:
        shown[f"{bindings.user} local names of"] = bindings.local_names
    return shown


def parse(text: str, name: str) -> Declared:
    """Parse the YAML `text` of the file `name`.

    :raises DeclaredError: not YAML, unknown keys or wrong types.
    """
    if len(text) > MAX_BYTES:
        raise DeclaredError(f"{name}: more than {MAX_BYTES} characters. Split the declaration into several files.")
    try:
        data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise DeclaredError(f"{name}: not YAML: {' '.join(str(error).split())}") from error
    try:
        parsed = _BindingsDocument.model_validate(data)
        declared = {
            user: UserBindings(user=user, **(levels_of.model_dump() if levels_of else {}))
            for user, levels_of in parsed.bindings.items()
        }
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        value = "" if first["type"] == "missing" else f" (found {str(first['input'])[:80]!r})"
        raise DeclaredError(
            f"{name}: {where}: {first['msg']}{value}. "
            "Expected: bindings: {USER: {cluster: NAME, instances: {}, topics: {}, groups: {}, client_ids: [], "
            "read: NAME, local_names: ALIAS}}."
        ) from error
    return Declared(declared, parsed.complete)


def read(path: Path) -> Declared:
    """Read a declaration.

    :raises DeclaredError: the file cannot be read or understood.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DeclaredError(f"{path}: cannot be read: {error}.") from error
    return parse(text, str(path))


def compare(declared: Declared, stored: Mapping[str, UserBindings]) -> tuple[BindingDifference, ...]:
    """The changes that turn `stored` into `declared`, by user name."""
    wanted: dict[str, UserBindings | None] = {
        user: (None if bindings.empty else bindings) for user, bindings in declared.bindings.items()
    }
    if declared.complete:
        wanted.update({user: None for user in stored if user not in wanted})
    return tuple(
        BindingDifference(user, stored.get(user), _onto(stored.get(user), after))
        for user, after in sorted(wanted.items())
        if display_levels(stored.get(user)) != display_levels(after)
    )


def _onto(before: UserBindings | None, after: UserBindings | None) -> UserBindings | None:
    """`after` with fields of `before` that this version does not know."""
    if before is None or after is None:
        return after
    return before.model_copy(update={name: getattr(after, name) for name in _LEVELS})


_LEVELS = ("cluster", "instances", "topics", "groups", "client_ids", "read", "local_names")
