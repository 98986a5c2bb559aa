"""Finds the mirrors of named topics, and the copy that a user reads."""

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from ha_core.model import Mirror, View
from ha_core.model.identity import NEAREST


class NoSuchMirrorError(ValueError):
    """A topic has no mirror, or several without one being named. The text lists them."""


def named(mirrors: Iterable[Mirror], topics: Collection[str], target: str = "") -> list[Mirror]:
    """The mirrors of `topics`, which are names or patterns (`orders-*`); empty: all mirrors.

    :param target: the cluster of the copy; empty: any, but a name may have one mirror only.
    :raises NoSuchMirrorError: with the topic and its mirrors.
    """
    there = sorted(mirrors, key=lambda mirror: mirror.key)
    fitting = [one for one in there if target in ("", one.target)]
    found: dict[str, Mirror] = {}
    for topic in topics or ("*",):
        some = [one for one in fitting if fnmatchcase(one.topic, topic)]
        if not some and (topics or target):
            where = f" in {target}" if target else ""
            others = ", ".join(sorted({one.target for one in there if fnmatchcase(one.topic, topic)}))
            also = f" (there is one in {others})" if others else ""
            raise NoSuchMirrorError(f"Topic {topic} has no mirror{where}{also}. `switchyard mirrors` lists them.")
        if len(some) > 1 and all(one.topic == topic for one in some):
            clusters = ", ".join(one.target for one in some)
            raise NoSuchMirrorError(f"Topic {topic} has mirrors in {clusters}. Name one of them with --to.")
        found.update((one.key, one) for one in some)
    return list(found.values())


def fed_by(view: View, topic: str, cluster: str) -> tuple[str, ...]:
    """The clusters by which records of a topic come to its copy in `cluster`, the writer's first; empty: it has none.

    Mirrors of one topic form no circle (`linking.no_circle`), and each copy has one source.
    """
    way = list[str]()
    while (mirror := view.mirrors.get(f"{topic}@{cluster}")) is not None and mirror.source not in way:
        way.append(cluster := mirror.source)
    return tuple(reversed(way))


def is_chained(view: View, mirror: Mirror) -> bool:
    """Whether its source is a copy, too."""
    return f"{mirror.topic}@{mirror.source}" in view.mirrors


_OF_BROKERS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})


def internal_topics(view: View) -> frozenset[str]:
    """Topics that each cluster has for itself: it would take another cluster's for its own state."""
    return _OF_BROKERS | view.copy_logs


def read_from(view: View, user: str, topic: str, zone: str) -> Mirror | None:
    """The mirror whose copy `user` reads in place of the topic; None: the user reads from the writer.

    :param zone: the gateway's zone; empty: not set.
    """
    bindings = view.bindings.get(user)
    if bindings is None or bindings.read is None:
        return None
    near = bindings.read == NEAREST
    names = [cluster.name for cluster in view.clusters.values() if cluster.zone == zone] if near else [bindings.read]
    found = (mirror for name in names if (mirror := view.mirrors.get(f"{topic}@{name}")) is not None)
    # The map does not say where the source's own copy has its records, so no reader is led to the copy of a copy.
    mirrors = [mirror for mirror in found if not is_chained(view, mirror)]
    if not mirrors or (near and any(one.source in names for one in mirrors)):
        return None
    return mirrors[0] if mirrors[0].held is None else None
