"""Names and patterns (`orders-*`) as conditions on columns."""

from collections.abc import Collection
from fnmatch import translate

from pyspark.sql import Column, functions


def matching(column: str, patterns: Collection[str]) -> Column:
    """True where the column's text is one of the names, or matches one of the patterns; without any, always."""
    return functions.col(column).rlike("|".join(f"^{translate(pattern)}" for pattern in sorted(patterns)))
