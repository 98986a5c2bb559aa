"""Pre-flight of clients: versions that a move of their group can stop for good, transactional producers, and open
transactions that a move would wait for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ha_core.model import Use
from ha_core.plan.facts.verdict import Verdicts, amount, duration, error, info, listed, warning
from ha_core.plan.preflight.case import PreflightCase

_JAVA = "apache-kafka-java"


@dataclass(frozen=True, slots=True)
class Defect:
    """A defect of Java consumers, which stop when their coordinator changes or does not answer."""

    issue: str
    versions: frozenset[str]
    what: str
    way: str
    alone: bool = False
    """Affects only consumers with manually assigned partitions, which commit without being members."""


DEFECTS = (
    Defect(
        "KAFKA-10793",
        frozenset({"2.5.0", "2.5.1", "2.6.0", "2.6.1", "2.7.0"}),
        "a consumer may never find its coordinator again, and reads no more",
        "Update them to 2.6.2, 2.7.1, 2.8.0 or newer",
    ),
    Defect(
        "KAFKA-13563",
        frozenset({"2.6.2", "2.6.3", "2.7.1", "2.7.2", "2.8.0", "2.8.1", "2.8.2", "3.0.0", "3.0.1", "3.0.2", "3.1.0"}),
        "a consumer with assigned partitions may never commit again",
        "Update them to 3.1.1 or newer",
        alone=True,
    ),
)


def defects_of(software: str | None) -> tuple[str, ...]:
    """Issues that may affect a consumer of this software when its group moves.

    :param software: `NAME/VERSION`, as clients report it (KIP-511).
    """
    name, _, version = (software or "").partition("/")
    return tuple(defect.issue for defect in DEFECTS if name == _JAVA and version in defect.versions)


class _Client(NamedTuple):
    user: str
    instance: str
    version: str

    @property
    def words(self) -> str:
        return f"{self.user}+{self.instance} ({self.version})" if self.instance else f"{self.user} ({self.version})"


def versions(case: PreflightCase) -> Verdicts:
    """Checks the versions that clients last reported to gateways in API_VERSIONS (KIP-511)."""
    for defect in DEFECTS:
        clients = sorted(set(_clients(case, defect)))
        if clients:
            yield warning(
                "client-version",
                defect.issue,
                f"{listed(client.words for client in clients)}: in these versions of Java clients {defect.what}, when "
                f"its group moves ({defect.issue}).",
                f"{defect.way}, or watch them after the move and restart those that stop.",
                number=len(clients),
                unit="clients",
            )


def _clients(case: PreflightCase, defect: Defect) -> Iterator[_Client]:
    for user, usage in case.usage.items():
        read = _of(usage.topics, case.moves.topics, {"fetch"})
        grouped = _of(usage.groups, case.moves.groups, {"join", "commit"})
        members = {use.instance for use in _of(usage.groups, case.moves.groups, {"join"})}
        for use in grouped if defect.alone else (*read, *grouped):
            if defect.issue in defects_of(use.software) and not (defect.alone and use.instance in members):
                yield _Client(user, use.instance, (use.software or "").partition("/")[2])


def _of(uses: Mapping[str, tuple[Use, ...]], names: tuple[str, ...], how: set[str]) -> tuple[Use, ...]:
    return tuple(use for name in names for use in uses.get(name, ()) if use.how in how)


def producers(case: PreflightCase) -> Verdicts:
    """Topics with transactional producers, unless they are the reason for a barrier, which has its own verdict."""
    for topic, here in case.in_origin():
        if here.transactional and topic not in case.barriers:
            ids = here.transactional_ids
            named = f" (transactional ids {listed(ids)})" if ids else ""
            yield warning(
                "transactional",
                f"topic {topic}",
                f"Topic {topic} has transactional producers{named}: the move waits for their open transactions, and "
                "after it the next one of each gets UNKNOWN_PRODUCER_ID.",
                "Give --drain-timeout longer than transactions take. Java from 2.5 on, librdkafka and franz-go abort "
                "one and initialise again by themselves; producers of other libraries have to be restarted. Move the "
                "users too: a transaction cannot write to a topic in another cluster than its user's.",
                number=len(ids) or None,
                unit="clients" if ids else "",
            )


def open_ones(case: PreflightCase) -> Verdicts:
    """Open transactions: the move waits for them, and is undone if they take too long. Hanging ones never end."""
    request = case.request
    for topic, here in case.in_origin():
        if request.mode == "forced" or not here.open_transactions:
            continue
        hanging = [transaction for transaction in here.open_transactions if transaction.hanging]
        others = [transaction for transaction in here.open_transactions if not transaction.hanging]
        if hanging:
            first = hanging[0]
            yield error(
                "hanging-transaction",
                f"topic {topic}",
                f"Transactions hang in topic {topic}: no coordinator knows them any more, and they never end by "
                f"themselves: {listed(f'partition {p.partition} since offset {p.offset}' for p in hanging)}. The "
                "move, and a copy, would wait for them in vain.",
                f"End them (KIP-664): `kafka-transactions.sh --bootstrap-server "
                f"{case.view.clusters[request.origin].bootstrap} abort --topic {topic} --partition {first.partition} "
                f"--start-offset {first.offset}`.",
                number=len(hanging),
                unit="transactions",
            )
        if others:
            oldest = max(transaction.age_s for transaction in others)
            which = listed(
                transaction.transactional_id or f"one of partition {transaction.partition}" for transaction in others
            )
            late = oldest > request.drain_timeout_s
            yield (warning if late else info)(
                "open-transaction",
                f"topic {topic}",
                f"{amount(len(others), 'transaction', 'is', 'are')} open in topic {topic}, the oldest has written "
                f"nothing for {duration(oldest)}: {which}. The move waits {request.drain_timeout_s:g} s for them, and "
                "is undone otherwise.",
                "Let them end, or give --drain-timeout longer than they take." if late else "Nothing.",
                number=len(others),
                unit="transactions",
            )
