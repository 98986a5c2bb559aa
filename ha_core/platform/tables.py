"""The tables.

Each change is one row of `changes`, never written again; `entries` has the newest change of each key. A deleted key
stays there, so that its versions continue if it is created again. `clock` is one row that every writer locks: times
are assigned and committed under it, so a reader that has seen a change has seen all earlier ones. It has the newest
seal, which the next change is hashed with (`model.change_seal`); changes that version 0001 made have none.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

MAX_KEY = 255
METADATA = MetaData()


def _name(length: int) -> String:
    """Compared by bytes, so that pages have the same order in databases of any language."""
    return String(length).with_variant(String(length, collation="C"), "postgresql")


CHANGES = Table(
    "changes",
    METADATA,
    Column("kind", _name(32), primary_key=True),
    Column("changed_us", BigInteger, primary_key=True, autoincrement=False),
    Column("key", _name(MAX_KEY), nullable=False),
    Column("version", Integer, nullable=False),
    Column("value", Text),
    Column("by", String(255), nullable=False),
    Column("reason", String(1000), nullable=False),
    Column("seal", String(64)),
    Index("changes_of_key", "kind", "key", "changed_us"),
)
ENTRIES = Table(
    "entries",
    METADATA,
    Column("kind", _name(32), primary_key=True),
    Column("key", _name(MAX_KEY), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("changed_us", BigInteger, nullable=False),
    Column("live", Boolean, nullable=False),
)
MENTIONS = Table(
    "mentions",
    METADATA,
    Column("kind", _name(32), primary_key=True),
    Column("key", _name(MAX_KEY), primary_key=True),
    Column("role", _name(32), primary_key=True),
    Column("name", _name(MAX_KEY), primary_key=True),
    Column("needed", Boolean, nullable=False),
    Index("mentioned", "role", "name", "kind", "key"),
)
TYPE_VERSIONS = Table(
    "type_versions",
    METADATA,
    Column("kind", _name(32), primary_key=True),
    Column("type", _name(32), primary_key=True),
    Column("version", Integer, nullable=False),
)
CLOCK = Table(
    "clock",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("last_us", BigInteger, nullable=False),
    Column("seal", String(64)),
)
