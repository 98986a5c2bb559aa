"""The screen of `status --watch`: at most 100 columns, no name cut off, nothing unknown shown as zero."""

from dataclasses import replace

from ha_core.model import Cluster, ExpectedGateway, ExpectedNumber, GatewayRecord, Mirror, WaitingApproval
from ha_core.operations.clusters.mirrors import MirrorsNow
from ha_core.operations.clusters.registered import ClusterState
from ha_core.operations.engine.gateway_queries import GatewayText
from ha_core.operations.overview.assessment import Assessment
from ha_core.operations.overview.fleet import Fleet
from ha_core.operations.overview.picture import Picture
from ha_core.operations.overview.traffic import (
    ClientTraffic,
    Traffic,
    TrafficRates,
    counters_of,
    counters_of_clusters,
    rates,
)
from ha_core.plan.facts.clusters import ClusterFacts
from ha_core.plan.facts.problem import Problem
from ha_core.plan.mirror.total import MirrorTotal
from ha_core.present.screen import WIDTH, screen, wrapped
from tests.kit.operations import a_switch

NOW = "2026-11-30T10:00:00Z"
LONG = "switch-20261130-100000-" + "a" * 77
EAST = ClusterState(Cluster(name="east", bootstrap="h:1"), ClusterFacts("east", reachable=True, brokers=(1,)))
GATEWAYS = tuple(
    GatewayRecord(id=name, host="h", port=1, node_id=1, revision=7, version="1.2") for name in ("gw-1", "gw-2")
)
LATE = Problem(
    "cluster-away", "cluster west", "It is not reachable: " + "x " * 80, "Mend it.", "switchyard mask west", age_s=90.0
)
PICTURE = Picture(
    at=NOW,
    revision=7,
    clusters=(EAST,),
    gateways=GATEWAYS,
    expected={"gw-3": ExpectedGateway(gateway="gw-3", host="h", port=1, since=NOW)},
    number=ExpectedNumber(number=3, by="till", since=NOW),
    running=(a_switch(id=LONG, state="fenced", started=NOW, reason="a drill"),),
    locks=(),
    approvals=(WaitingApproval(run="airflow:switch/manual__1", by="alice", since=NOW, answer_by="2999"),),
    mirrors=MirrorsNow(
        [], [(Mirror.of("orders", "east", "west", "l", NOW, "t"), MirrorTotal(partitions=3, copying=3, rpo_s=4))]
    ),
    platform=(),
    assessment=Assessment((LATE,), ()),
    warnings=(),
)
CLIENTS = ClientTraffic(10.0, {"east": 4}, {"gw-1": 3}, {"gw-1": Traffic(3_000.0, 9_000.0)})


def text_of(picture: Picture = PICTURE, clients: ClientTraffic | None = CLIENTS, **of: tuple[float, float]) -> str:
    rates = TrafficRates(
        {name.replace("_", "-"): rate for name, rate in of.items()}, {"east": (5_000.0, 7_000.0)} if of else {}
    )
    return "\n".join(screen(Fleet(picture, clients, rates, {NOW: 12.0})))


def test_no_line_is_longer_than_the_screen_and_no_id_is_cut_off() -> None:
    lines = screen(Fleet(PICTURE, CLIENTS, TrafficRates(), {NOW: 12.0}))

    assert max(map(len, lines)) <= WIDTH
    assert LONG in "".join(line.strip() for line in lines)


def test_names_cannot_control_the_terminal() -> None:
    hostile = replace(PICTURE, approvals=(PICTURE.approvals[0].changed(by="x\x1b[2J\nadmin root"),))

    lines = screen(Fleet(hostile, CLIENTS, TrafficRates(), {NOW: 12.0}))

    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith("admin") for line in lines)


def test_a_narrow_terminal_wraps_more_and_loses_nothing() -> None:
    line = "    a text of several words, and " + "b" * 120

    assert "".join("".join(wrapped(line, 40)).split()) == "".join(line.split())


def test_the_screen_names_gateways_expected_and_there_operations_approvals_and_mirrors() -> None:
    text = text_of(gw_1=(1_500.0, 2_000_000.0))

    assert "1 problem waits for an operator" in text
    assert "cluster-away, seen for 90 s: cluster west" in text
    assert "gateways: 2 of 3 expected" in text
    assert "1.5 kB/s" in text
    assert "5.0 kB/s" in text
    assert "2.0 MB/s" in text
    assert "expected, and not there" in text
    assert "airflow:switch/manual__1" in text
    assert "east → west" in text
    assert "12 s" in text


def test_clients_and_rates_that_are_not_known_are_left_out_and_not_zero() -> None:
    unknown = text_of(clients=ClientTraffic(10.0, None, {}, {}))

    assert "clients" not in unknown
    assert "/s" not in unknown
    assert " 0 " not in unknown
    # A cluster without clients has zero of them if all gateways have answered
    assert "clients" in text_of(replace(PICTURE, clusters=(EAST,)), replace(CLIENTS, clusters={}))


def test_the_rate_of_a_restarted_gateway_is_unknown() -> None:
    later = ClientTraffic(20.0, {}, {}, {"gw-1": Traffic(4_000.0, 8_000.0), "gw-2": Traffic(1.0, 1.0)})
    grown = ClientTraffic(20.0, {}, {}, {"gw-1": Traffic(4_000.0, 19_000.0)})

    assert rates(CLIENTS, later) == TrafficRates()
    assert rates(CLIENTS, grown) == TrafficRates({"gw-1": (100.0, 1_000.0)})
    assert rates(None, grown) == TrafficRates()


def test_the_rate_of_a_cluster_is_that_of_all_gateways_or_unknown() -> None:
    def at(at_s: float, gateways: dict[str, int], **counts: float) -> ClientTraffic:
        counters = {"gw-1": Traffic(0, 0), "gw-2": Traffic(0, 0)}
        east = {f"gw-{name[-1]}": {"east": Traffic(count, 2 * count)} for name, count in counts.items()}
        return ClientTraffic(at_s, {}, gateways, counters, east)

    both = {"gw-1": 1, "gw-2": 1}
    before, after = at(10, both, gw1=100, gw2=50), at(20, both, gw1=200, gw2=250)

    assert rates(before, after).clusters == {"east": (30.0, 60.0)}
    # A cluster that gets its first client between two looks began at zero
    assert rates(at(10, both, gw1=100), after).clusters == {"east": (35.0, 70.0)}
    # A gateway whose counters are not known serves some of the bytes
    assert rates(before, at(20, {**both, "gw-3": 1}, gw1=200, gw2=250)).clusters == {}
    page = 'switchyard_gateway_cluster_bytes_total{cluster="east",direction="%s"} %s'
    assert counters_of_clusters("\n".join((page % ("in", "9.0"), page % ("out", "4.0")))) == {"east": Traffic(4.0, 9.0)}


def test_bytes_of_clients_are_read_from_a_metrics_page() -> None:
    page = "\n".join(
        f'switchyard_gateway_bytes_total{{direction="{way}",side="{side}"}} {value}'
        for side, way, value in (("client", "in", "7.0"), ("client", "out", "1.5e+06"), ("broker", "in", "3.0"))
    )

    assert counters_of([GatewayText("gw-1", page), GatewayText("gw-2", "other 1")]) == {
        "gw-1": Traffic(7.0, 1_500_000.0)
    }
