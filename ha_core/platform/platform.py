"""The platform over one database: used by commands, REST, forms, and gateways on the same machine."""

import secrets
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

import ha_core.platform.kinds  # noqa: F401  # fills the table of kinds
from ha_core.platform.changing import Changer, Edit, put, wall_clock_us
from ha_core.platform.database import Database
from ha_core.platform.entry import Entry
from ha_core.platform.errors import InvalidError
from ha_core.platform.feed import DatabaseSource
from ha_core.platform.kinds.instances import Instance, new_name
from ha_core.platform.kinds.users import UserEntry
from ha_core.platform.reading import MAX_PAGE, EntryReader
from ha_core.platform.scram import ITERATIONS, derive_all
from ha_core.platform.stored import StoredEntry

GENERATED_BYTES = 24
"""Random bytes of a generated password: 32 characters."""


class Platform:
    """
    :ivar read: entries, pages, histories.
    """

    def __init__(self, database: Database, clock_us: Callable[[], int] = wall_clock_us) -> None:
        self.database = database
        self._on_change: tuple[Callable[[], object], ...] = ()
        self.read = EntryReader(database)
        self._changer = Changer(database, clock_us)

    @classmethod
    def open(cls, url: str, creates: bool = True) -> Self:
        """:param creates: create an SQLite file that does not exist, with its tables.
        :raises PlatformError: the database is away, or has other tables.
        """
        database = Database(url)
        database.open(creates)
        return cls(database)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.database.close()

    def apply(self, edits: Sequence[Edit], by: str, reason: str, dry_run: bool = False) -> tuple[StoredEntry, ...]:
        """All edits or none; see `Changer.apply`."""
        made = self._changer.apply(edits, by, reason, dry_run)
        if not dry_run:
            for listener in self._on_change:
                listener()
        return made

    def on_change(self, *listeners: Callable[[], object]) -> None:
        """:param listeners: called after each change, in the thread that made it."""
        self._on_change += listeners

    def create(self, entry: Entry, by: str, reason: str, dry_run: bool = False) -> StoredEntry:
        """:raises StaleVersionError: it exists already."""
        return self.apply([put(entry)], by, reason, dry_run)[0]

    def replace(self, entry: Entry, version: int, by: str, reason: str, dry_run: bool = False) -> StoredEntry:
        """:raises StaleVersionError: it has another version now."""
        return self.apply([put(entry, version)], by, reason, dry_run)[0]

    def delete(self, kind: str, key: str, version: int, by: str, reason: str, dry_run: bool = False) -> StoredEntry:
        """:raises StaleVersionError: it has another version now."""
        return self.apply([Edit(kind, key, None, version)], by, reason, dry_run)[0]

    def delete_user(
        self, name: str, version: int, by: str, reason: str, dry_run: bool = False
    ) -> tuple[StoredEntry, ...]:
        """Delete a user with its own rules, quotas and instances, at once. Topics that it owns block the deletion.

        :raises StillUsedError: topics, or rules that were made meanwhile.
        """
        edits = [Edit("users", name, None, version)]
        for kind in ("rules", "quotas", "instances"):
            page = self.read.page(kind, limit=MAX_PAGE, mentioned={"user": name})
            if page.after is not None:
                raise InvalidError(f"{name!r} has more than {MAX_PAGE} {kind}: delete some of them first")
            edits += [Edit(kind, entry.key, None, entry.version) for entry in page.stored]
        return self.apply(edits, by, reason, dry_run)

    def new_instance(self, user: str, topics: Sequence[str], description: str = "") -> Instance:
        """An instance with an unused client id. It is not stored yet.

        :raises InvalidError: the user, a topic or the description is invalid.
        """
        return Instance.read({"name": new_name(user), "user": user, "topics": topics, "description": description})

    def set_password(
        self,
        name: str,
        password: str,
        by: str,
        reason: str,
        version: int | None = None,
        iterations: int = ITERATIONS,
        dry_run: bool = False,
    ) -> StoredEntry:
        """Store keys for both mechanisms, each with a new salt. The password itself is not stored.

        :param version: None: any.
        """
        entry = self.read.get("users", name)
        user = UserEntry.read({**_values(entry), "scram": derive_all(password, iterations)})
        return self.replace(user, entry.version if version is None else version, by, reason, dry_run)

    def generate_password(
        self, name: str, by: str, reason: str, replace: bool = False, dry_run: bool = False
    ) -> tuple[StoredEntry, str]:
        """Generate a password, return it once, and store only its keys.

        :param replace: even if the user has a password.
        :raises InvalidError: the user has a password.
        :raises StaleVersionError: another password was set at the same time.
        """
        entry = self.read.get("users", name)
        if not replace and isinstance(entry.entry, UserEntry) and entry.entry.scram:
            raise InvalidError(f"{name!r} has a password: to replace it by another one, set replace")
        password = secrets.token_urlsafe(GENERATED_BYTES)
        return self.set_password(name, password, by, reason, entry.version, dry_run=dry_run), password

    def source(self, kind: str) -> DatabaseSource:
        """The source of a cache for one kind."""
        return DatabaseSource(self.database, kind)


def _values(stored: StoredEntry) -> dict[str, object]:
    assert stored.entry is not None  # `get` returns live entries only
    return stored.entry.model_dump()
