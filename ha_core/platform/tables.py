"""The tables.

Each change is one row of `changes`, never written again; `entries` says which of them is the newest of its key. A
deleted key stays there, so that its versions go on where it is made again. `clock` is the one row that every writer
locks: times are allotted and committed under it, so whoever has read the change of a time has seen all before it.
"""

from __future__ import annotations

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
    """Compared by bytes everywhere, so that pages follow one another whatever language a database has."""
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
CLOCK = Table("clock", METADATA, Column("id", Integer, primary_key=True), Column("last_us", BigInteger, nullable=False))
