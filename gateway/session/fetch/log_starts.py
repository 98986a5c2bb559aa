"""Where an extent's log starts by now, when its first records are gone: readers who come from an older one go on there.

Retention by size keeps all of a closed log, and takes the first records of the live one. An offset out of range would
send a reader to the earliest one, which is the old log's start.
"""

from __future__ import annotations

from gateway.session import exchange
from gateway.session.commands import BrokerLane
from gateway.session.fetch.plan import FetchPlan, Gap, Key, stands
from gateway.session.pending import Exchange, Send
from gateway.session.request import Request
from gateway.session.state import ConnectionState
from ha_core.model import View
from ha_core.wire import ApiKey, ErrorCode

_VERSION = 1
_EARLIEST = -2


def ask(session: ConnectionState, plan: FetchPlan) -> None:
    """Asks the brokers of `plan.gone`, on the client's own connections to them; the client's next fetch knows."""
    for lane in dict.fromkeys(plan.gone.values()):
        question = Request.own(ApiKey.LIST_OFFSETS, _VERSION, session.settings.limits)
        exchange.ask_aside(session, question, _ask(session, plan, lane, question))


def _ask(session: ConnectionState, plan: FetchPlan, lane: BrokerLane, question: Request) -> Exchange:
    topics: dict[str, list[dict[str, int]]] = {}
    for (name, partition), other in plan.gone.items():
        if other == lane:
            topics.setdefault(name, []).append({"partition_index": partition, "timestamp": _EARLIEST})
    body = {"replica_id": -1, "topics": [{"name": name, "partitions": asked} for name, asked in topics.items()]}
    frames = yield Send({lane: question.rewritten(body)}, survives_loss=True)
    if frames[lane] is None:
        return None
    for topic in question.decode_answer(frames[lane])["topics"]:
        for told in topic["partitions"]:
            if told["error_code"] == ErrorCode.NONE:
                _learn(session, plan, (topic["name"], told["partition_index"]), told["offset"])
    return None


def _learn(session: ConnectionState, plan: FetchPlan, key: Key, start: int) -> None:
    read = plan.reads.get(key)
    if read is None or read.extent is None or not stands(session.snapshot.view, key, read.extent):
        return
    # It may have lost records at its end instead: the client learns of it, as it would of any other log.
    lost = start <= read.physical
    resume = read.extent.to_client(read.physical) if lost else read.extent.clip(start)
    session.gaps[key] = Gap(read.asked, resume, sure=lost)


def forget(session: ConnectionState, before: View) -> None:
    """What was found out about a map that has changed is worth nothing."""
    after = session.snapshot.view.topics
    for key in tuple(session.gaps):
        then, now = before.topics.get(key[0]), after.get(key[0])
        if then is not now and then != now:
            del session.gaps[key]
