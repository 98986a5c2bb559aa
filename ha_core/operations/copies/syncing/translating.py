"""The offsets that groups should have in a mirror's target: carried as they are, or translated for direct groups.

A group that no gateway client is known to use, and that no operator has named as direct, is carried as it is. If the
copy has other offsets, that is a finding: the kind of its numbers cannot be seen, and a wrong one loses records.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from ha_core.flows.translation import Translated
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.groups import Committed
from ha_core.kafka.takeover import CopyPartition
from ha_core.kafka.verifying import copies_of
from ha_core.mirror.progress import CopyDamagedError
from ha_core.model import GroupCheckpoints
from ha_core.operations.copies.syncing.copy_maps import CopyMaps, reported_copies
from ha_core.operations.copies.syncing.pair import MirrorPair
from ha_core.operations.engine.revisions import nested_by_topic
from ha_core.plan.facts.clusters import Partition
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.facts.verdict import amount, listed
from ha_core.plan.mirror.carried import WantedCommits, client_offsets, translated_offsets

Commits = Mapping[str, Mapping[Partition, Committed]]
"""Group → partition → its commit."""
Seen = Mapping[str, Mapping[Partition, int]]
"""Group → partition → the highest offset that it was seen to commit in the source."""


@dataclass(frozen=True)
class Carrying:
    """The commits that a pass brings over, and the checkpoints that it begins with.

    :ivar wanted: group → its commits in the target.
    :ivar direct: group → the pattern that names it.
    :ivar checkpoints: group → its document.
    """

    wanted: Mapping[str, WantedCommits]
    direct: Mapping[str, str]
    checkpoints: Mapping[str, GroupCheckpoints]


def follow_maps(pair: MirrorPair, maps: CopyMaps, commits: Commits, seen: Seen, source_answers: bool) -> None:
    """Bring the maps up to date by which commits of these groups are translated. Groups of gateway clients do not wait
    for maps that cannot be read.

    :param seen: with the groups of `commits`, and those that have no commits any more.
    :param source_answers: False: it is not asked whether its topics were created again.
    """
    copies = _copies(pair, commits, seen)
    try:
        maps.follow(
            pair.target,
            dict(copies.values()),
            reported_copies(pair.store.follow_mirror_copies().read(), pair.links.values()) if copies else {},
            pair.source.topic_ids({topic for topic, _ in copies}) if copies and source_answers else {},
        )
    except (KafkaAdminError, CopyDamagedError) as error:
        maps.unknown = str(error)


def carrying(pair: MirrorPair, maps: CopyMaps, commits: Commits, seen: Seen, live: Collection[str]) -> Carrying:
    """The offsets that these groups should have in the target.

    :param maps: see `follow_maps`.
    :param live: groups whose consumers are at work in the source. If they are in a wrong kind, an operator has to act.
    """
    names = sorted(commits.keys() | seen.keys())
    direct = {name: pattern for name in names if (pattern := pair.view.direct(name)) is not None}
    checkpoints = pair.store.checkpoints(pair.source.cluster.name, pair.target.cluster.name)
    copies, links = _copies(pair, commits, seen), pair.links

    def translate(key: Partition, offset: int) -> int | str:
        place = maps.translate(copies[key][0].id, offset)
        return place.offset if isinstance(place, Translated) else place.reason

    def exactly(key: Partition, offset: int) -> int | str:
        place = maps.translate(copies[key][0].id, offset)
        return place.offset if isinstance(place, Translated) and place.precision == "exact" else "not copied yet"

    wanted: dict[str, WantedCommits] = {}
    for name in names:
        document = checkpoints.get(name)
        before = {} if document is None else {key: there for key, (_, there) in document.valid(links).items()}
        its, high = commits.get(name, {}), seen.get(name, {})
        wanted[name] = (
            translated_offsets(its, high, before, translate) if name in direct else client_offsets(its, high, before)
        )
    for name in sorted(commits.keys() - direct.keys() - pair.homes.keys()):
        places = translated_offsets(commits[name], {}, {}, exactly).commits
        _name_difference(pair, name, places, commits[name], name in live)
    for name, pattern in direct.items():
        if name in pair.homes:
            _name_conflict(pair, name, pattern)
    return Carrying(wanted, direct, checkpoints)


def keep_checkpoints(pair: MirrorPair, found: Carrying, commits: Commits, there: Commits) -> None:
    """Write down which numbers of the target are translated.

    :param commits: of the source.
    :param there: commits in the target, as far as this pass has committed them or found them there.
    """
    links = pair.links  # also of mirrors that this pass leaves alone: their checkpoints stay
    changed, gone = list[GroupCheckpoints](), list[GroupCheckpoints]()
    for name in sorted(found.wanted.keys() | found.checkpoints.keys()):
        document, committed = found.checkpoints.get(name), there.get(name, {})
        kept = {} if document is None else document.valid(links)
        for key, (offset, _) in found.wanted[name].commits.items() if name in found.wanted else ():
            if committed.get(key, (None, ""))[0] != offset:
                continue
            if name in found.direct:
                kept[key] = commits[name][key][0], offset
            else:
                kept.pop(key, None)
        offsets = nested_by_topic(kept)
        if not offsets:
            gone += [] if document is None else [document]
        elif document is None or document.offsets != offsets:
            its = {topic: links[topic] for topic in offsets}
            route = pair.source.cluster.name, pair.target.cluster.name
            changed.append(GroupCheckpoints.of(*route, name, pair.at, its, offsets))
    pair.store.keep_checkpoints(changed, gone)


def _copies(pair: MirrorPair, commits: Commits, seen: Seen) -> dict[Partition, tuple[CopyPartition, int]]:
    """Partition → its copy, and the highest offset in the source of a group that is translated, or compared: a direct
    one, or one of which no gateway client is known."""
    highest: dict[Partition, int] = {}
    for name in commits.keys() | seen.keys():
        if name in pair.homes and pair.view.direct(name) is None:
            continue
        offsets = {key: offset for key, (offset, _) in commits.get(name, {}).items()}
        for key, offset in [*offsets.items(), *seen.get(name, {}).items()]:
            if key[0] in pair.mirrors:
                highest[key] = max(offset, highest.get(key, 0))
    return {
        copy.key: (copy, highest[copy.key])
        for topic, partitions in grouped(highest).items()
        for copy in copies_of(pair.mirrors[topic], partitions)
    }


def _name_difference(
    pair: MirrorPair,
    name: str,
    direct: Mapping[Partition, Committed],
    theirs: Mapping[Partition, Committed],
    may_read: bool,
) -> None:
    """:param direct: the offsets that the group would have if it was direct; `theirs`: those that it gets."""
    other = {key: offset for key, (offset, _) in direct.items() if offset != theirs[key][0]}
    if not other:
        return
    key = min(other)
    target = pair.target.cluster.name
    reason = (
        f"no gateway client of it is known, and its offsets are carried as client offsets: {target} has "
        f"{theirs[key][0]} of {key[0]}-{key[1]}, and the copy has that place at {other[key]} "
        f"({amount(len(other), 'partition')} differ). A consumer that reads {target} past the gateways would repeat or "
        f"miss records. If it reads past them: `switchyard direct-groups add {name}`; if it uses them: `switchyard "
        f"usage declare USER --group {name}`; if it is not needed, delete it"
    )
    pair.add_finding("offsets", f"group {name}", reason, stop=may_read)


def _name_conflict(pair: MirrorPair, name: str, pattern: str) -> None:
    clusters = listed(sorted(pair.homes[name])) or "no cluster"
    reason = (
        f"direct group {pattern!r} names it, and gateways know clients of it, which they lead to {clusters}: its "
        "offsets are translated, and gateways refuse these clients. Give one of both another group, then `switchyard "
        f"usage forget USER --group {name}`, or `switchyard direct-groups remove {pattern!r}`"
    )
    pair.add_finding("offsets", f"group {name}", reason, stop=True)


def untranslated(wanted: WantedCommits) -> Iterator[str]:
    """Reasons why offsets are not known in the target, each with its partitions."""
    for reason, keys in grouped((why, f"{t}-{p}") for (t, p), why in sorted(wanted.untranslated.items())).items():
        yield f"{listed(keys)}: {reason}"
