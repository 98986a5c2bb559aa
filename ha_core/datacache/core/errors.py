"""Errors of a cache. Each text names the thing, the value found and the way out."""


class DataCacheError(Exception):
    """Base of all errors of caches."""


class BrokenSourceError(DataCacheError):
    """The source has broken a promise. Nothing of its answer was taken."""

    def __init__(self, found: str) -> None:
        super().__init__(f"the source gave {found}; the content read before stays in force: mend the source")


class SourceWentBackError(DataCacheError):
    """The source has lost changes that were read from it, for example by a restore from a backup."""

    def __init__(self, read_us: int, newest_us: int) -> None:
        super().__init__(
            f"the source's newest change is of {newest_us}, and was {read_us} before: it was restored from a backup, "
            "or is another one. The content read stays in force. If it is meant, change anything in the source (its "
            f"times must go on above {read_us}) and let all nodes reload"
        )


class NodeIdTakenError(DataCacheError):
    """Another live process has this node id."""

    def __init__(self, cache: str, node: str, holder: str, waited_s: float) -> None:
        """:param holder: its host, process and session."""
        super().__init__(
            f"node {node} of the cache {cache} is {holder}, still there after {waited_s:.1f} s: "
            "another process runs under this id; give each its own"
        )


class UnknownNodeError(DataCacheError):
    """No live node has this id."""

    def __init__(self, cache: str, node: str, live: list[str]) -> None:
        known = f"live are {', '.join(live)}" if live else "none is live"
        super().__init__(f"the cache {cache} has no node {node}: {known}. A node that starts reads everything anyway")
