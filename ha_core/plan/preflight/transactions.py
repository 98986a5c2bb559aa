"""Pre-flight of transactions: topics with transactional producers, and open transactions that a move would wait for."""

from __future__ import annotations

from ha_core.plan.facts.verdict import Verdicts, duration, error, info, listed, warning
from ha_core.plan.preflight.case import PreflightCase


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
        hanging = [one for one in here.open_transactions if one.hanging]
        others = [one for one in here.open_transactions if not one.hanging]
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
            oldest = max(one.age_s for one in others)
            which = listed(one.transactional_id or f"one of partition {one.partition}" for one in others)
            late = oldest > request.drain_timeout_s
            yield (warning if late else info)(
                "open-transaction",
                f"topic {topic}",
                f"{len(others)} transactions are open in topic {topic}, the oldest has written nothing for "
                f"{duration(oldest)}: {which}. The move waits {request.drain_timeout_s:g} s for them, and is undone "
                "otherwise.",
                "Let them end, or give --drain-timeout longer than they take." if late else "Nothing.",
                number=len(others),
                unit="transactions",
            )
