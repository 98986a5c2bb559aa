"""Makes the dashboards for Grafana, 11.6 or newer: `python deploy/grafana/dashboards.py` writes them beside this file.

Each panel is a row of a table here, so that a metric which changes its name is changed in one place. Tests keep the
files equal to what this makes, and ask a real Prometheus every query.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from grafana_foundation_sdk.builders import dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync, DataSourceRef, Threshold, ThresholdsMode

FOLDER = Path(__file__).parent
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
WIDTH, HEIGHT = 24, 8
STAT_HEIGHT = 4


class PanelQuery(NamedTuple):
    """:ivar legend: names a line by its labels."""

    expression: str
    legend: str = ""


class Graph(NamedTuple):
    """:ivar says: how to read it, for the panel's description."""

    title: str
    unit: str
    queries: Sequence[PanelQuery]
    says: str = ""


class Figure(NamedTuple):
    """One number.

    :ivar bad_from: red from this value on; None: it is never bad.
    :ivar bad_below: red below this value.
    """

    title: str
    unit: str
    query: PanelQuery
    bad_from: float | None = None
    bad_below: float | None = None
    says: str = ""


class PanelRow(NamedTuple):
    title: str
    panels: Sequence[Figure | Graph]


class Board(NamedTuple):
    """:ivar file: without its ending, also the dashboard's uid."""

    file: str
    title: str
    rows: Sequence[PanelRow]


_RATE = "[$__rate_interval]"
_NONE = "0 * max(switchyard_state_looked_timestamp_seconds)"
"""0 as long as a gateway looks at the state."""
_SIDES = (("request", "client"), ("broker", "brokers"))


def _latency(api: str, quantile: float) -> tuple[PanelQuery, ...]:
    return tuple(
        PanelQuery(
            f"histogram_quantile({quantile}, sum by (le) "
            f'(rate(switchyard_gateway_{side}_seconds_bucket{{api="{api}"}}{_RATE})))',
            f"{words}, p{round(100 * quantile)}",
        )
        for side, words in _SIDES
    )


_OWN_TIME = PanelQuery(
    f"sum by (api) (rate(switchyard_gateway_request_seconds_sum{_RATE})) "
    f"/ sum by (api) (rate(switchyard_gateway_request_seconds_count{_RATE})) "
    f"- sum by (api) (rate(switchyard_gateway_broker_seconds_sum{_RATE})) "
    f"/ sum by (api) (rate(switchyard_gateway_broker_seconds_count{_RATE}))",
    "{{api}}",
)

FLEET = Board(
    "switchyard-fleet",
    "Switchyard: fleet",
    (
        PanelRow(
            "Now",
            (
                Figure("Gateways ready", "short", PanelQuery("sum(switchyard_gateway_ready)"), bad_below=2),
                Figure("Gateways down", "short", PanelQuery('sum(up{job="switchyard-gateway"} == bool 0)'), bad_from=1),
                Figure(
                    "Clusters away",
                    "short",
                    PanelQuery("sum(max by (cluster) (switchyard_gateway_cluster_reachable) == bool 0)"),
                    bad_from=1,
                    says="Masked ones count, too.",
                ),
                Figure("Connections", "short", PanelQuery("sum(switchyard_gateway_connections)")),
                Figure(
                    "Problems",
                    "short",
                    PanelQuery(f"sum(switchyard_problems) or {_NONE}"),
                    bad_from=1,
                    says="As `switchyard status --check` lists them. No value: no gateway looks at the state.",
                ),
                Figure(
                    "Lease left",
                    "s",
                    PanelQuery("min(switchyard_gateway_lease_left_seconds)"),
                    bad_below=1,
                    says="Of the gateway with the least. At 0 its clients wait for ZooKeeper.",
                ),
            ),
        ),
        PanelRow(
            "Clusters",
            (
                Graph(
                    "Reachable",
                    "bool_yes_no",
                    (PanelQuery("min by (cluster) (switchyard_gateway_cluster_reachable)", "{{cluster}}"),),
                    "By the gateway that sees it worst.",
                ),
                Graph(
                    "Age of recorded facts",
                    "s",
                    (
                        PanelQuery(
                            "time() - max by (cluster) (switchyard_gateway_facts_recorded_timestamp_seconds)",
                            "{{cluster}}",
                        ),
                    ),
                    "A forced move out of a dead cluster reckons with these.",
                ),
                Graph(
                    "Connections dialled",
                    "ops",
                    (
                        PanelQuery(
                            f"sum by (cluster, outcome) (rate(switchyard_gateway_upstream_dials_total{_RATE}))",
                            "{{cluster}} {{outcome}}",
                        ),
                    ),
                ),
                Graph("Problems by code", "short", (PanelQuery("max by (code) (switchyard_problems)", "{{code}}"),)),
            ),
        ),
        PanelRow(
            "Traffic",
            (
                Graph(
                    "Bytes",
                    "Bps",
                    (
                        PanelQuery(
                            f"sum by (side, direction) (rate(switchyard_gateway_bytes_total{_RATE}))",
                            "{{side}} {{direction}}",
                        ),
                    ),
                ),
                Graph(
                    "Requests",
                    "reqps",
                    (PanelQuery(f"sum by (api) (rate(switchyard_gateway_requests_total{_RATE}))", "{{api}}"),),
                ),
                Graph(
                    "Revision",
                    "short",
                    (PanelQuery("switchyard_gateway_revision", "{{instance}}"),),
                    "A gateway below the others does not follow; moves wait for it.",
                ),
                Graph(
                    "Versions",
                    "short",
                    (PanelQuery("count by (version) (switchyard_build_info)", "{{version}}"),),
                ),
            ),
        ),
    ),
)

MOVES = Board(
    "switchyard-moves-and-mirrors",
    "Switchyard: moves and mirrors",
    (
        PanelRow(
            "Moves now",
            (
                Figure(
                    "Operations",
                    "short",
                    PanelQuery(f"sum(switchyard_operations) or {_NONE}"),
                ),
                Figure(
                    "Fences",
                    "short",
                    PanelQuery("max(switchyard_gateway_fences)"),
                    says="Clients of fenced topics wait. A fence takes a fraction of a second.",
                ),
                Figure(
                    "Oldest fence",
                    "s",
                    PanelQuery("max(switchyard_gateway_fence_oldest_seconds) or max(switchyard_gateway_fences) == 0"),
                    bad_from=30,
                ),
                Figure("Approvals waiting", "short", PanelQuery("max(switchyard_approvals_waiting)")),
                Figure(
                    "Records until the cuts",
                    "short",
                    PanelQuery("max(switchyard_crossing_missing_records)"),
                    says="Of all partitions that cross over and whose log ends are known.",
                ),
                Figure(
                    "Partitions of unknown end",
                    "short",
                    PanelQuery('max(switchyard_crossing_partitions{progress="unknown"})'),
                    bad_from=1,
                ),
            ),
        ),
        PanelRow(
            "Moves",
            (
                Graph(
                    "Operations by kind and state",
                    "short",
                    (
                        PanelQuery(
                            f"max by (kind, state) (switchyard_operations) or {_NONE}",
                            "{{kind}} {{state}}",
                        ),
                    ),
                ),
                Graph(
                    "Topics by status", "short", (PanelQuery("max by (status) (switchyard_migrations)", "{{status}}"),)
                ),
                Graph(
                    "Partitions on their way to the cut",
                    "short",
                    (PanelQuery("max by (progress) (switchyard_crossing_partitions)", "{{progress}}"),),
                ),
                Graph(
                    "Refusals",
                    "reqps",
                    (PanelQuery(f"sum by (cause) (rate(switchyard_gateway_refusals_total{_RATE}))", "{{cause}}"),),
                    "Those for a fence are a move's; those of other causes are the clients'.",
                ),
            ),
        ),
        PanelRow(
            "Mirrors",
            (
                Graph(
                    "Loss if the source died now",
                    "s",
                    (
                        PanelQuery(
                            "max by (source, target) (switchyard_mirror_longest_rpo_seconds)",
                            "{{source}} to {{target}}",
                        ),
                    ),
                    "The longest of all partitions of known lag.",
                ),
                Graph(
                    "Records not copied yet",
                    "short",
                    (
                        PanelQuery(
                            "max by (source, target) (switchyard_mirror_total_lag_records)", "{{source}} to {{target}}"
                        ),
                    ),
                ),
                Graph(
                    "Partitions by state",
                    "short",
                    (
                        PanelQuery("sum by (state) (switchyard_mirror_partitions)", "{{state}}"),
                        PanelQuery("sum(switchyard_mirror_unknown_lag_partitions)", "of unknown lag"),
                    ),
                    "Stopped ones need an operator.",
                ),
                Graph(
                    "Bytes copied",
                    "Bps",
                    (
                        PanelQuery(
                            f"sum by (source, target) (rate(switchyard_mirror_copied_bytes_total{_RATE}))",
                            "{{source}} to {{target}}",
                        ),
                    ),
                ),
            ),
        ),
    ),
)

GATEWAY = Board(
    "switchyard-gateway",
    "Switchyard: gateway",
    (
        PanelRow(
            "Is it the gateway?",
            (
                Graph(
                    "PRODUCE",
                    "s",
                    _latency("produce", 0.5) + _latency("produce", 0.99),
                    "As clients wait for it, and as brokers answer: the gap is the gateway.",
                ),
                Graph(
                    "FETCH",
                    "s",
                    _latency("fetch", 0.5) + _latency("fetch", 0.99),
                    "With the time for which a fetch waits for records at its broker.",
                ),
                Graph(
                    "Time that the gateway adds",
                    "s",
                    (_OWN_TIME,),
                    "Mean of requests less mean of brokers' answers: fences, quotas, work of the gateway.",
                ),
                Graph(
                    "Lateness of the event loop",
                    "s",
                    (
                        PanelQuery(
                            "histogram_quantile(0.99, sum by (le, instance) "
                            f"(rate(switchyard_gateway_loop_lag_seconds_bucket{_RATE})))",
                            "{{instance}}, p99",
                        ),
                    ),
                    "Whatever has arrived waits as long; it counts for the brokers in the panels before.",
                ),
            ),
        ),
        PanelRow(
            "Clients",
            (
                Graph("Connections", "short", (PanelQuery("switchyard_gateway_connections", "{{instance}}"),)),
                Graph(
                    "Connections accepted",
                    "ops",
                    (
                        PanelQuery(
                            f"sum by (instance) (rate(switchyard_gateway_connections_accepted_total{_RATE}))",
                            "{{instance}}",
                        ),
                    ),
                ),
                Graph(
                    "Requests by outcome",
                    "reqps",
                    (PanelQuery(f"sum by (outcome) (rate(switchyard_gateway_requests_total{_RATE}))", "{{outcome}}"),),
                    "passed: as it is; mapped: other offsets; composed: several clusters; local: by the gateway.",
                ),
                Graph(
                    "Composed requests, p99",
                    "s",
                    (
                        PanelQuery(
                            "histogram_quantile(0.99, sum by (le, api) "
                            f"(rate(switchyard_gateway_composed_request_seconds_bucket{_RATE})))",
                            "{{api}}",
                        ),
                    ),
                ),
            ),
        ),
        PanelRow(
            "Process",
            (
                Graph(
                    "Processor",
                    "percentunit",
                    (
                        PanelQuery(
                            f'rate(process_cpu_seconds_total{{job="switchyard-gateway"}}{_RATE})', "{{instance}}"
                        ),
                    ),
                    "Of a core, for all workers of a gateway. Add one above 80 % for each worker.",
                ),
                Graph(
                    "Memory",
                    "bytes",
                    (PanelQuery('process_resident_memory_bytes{job="switchyard-gateway"}', "{{instance}}"),),
                ),
                Graph(
                    "Bytes of clients that are held",
                    "bytes",
                    (
                        PanelQuery(
                            "sum by (instance) (switchyard_gateway_held_request_bytes)", "{{instance}} requests"
                        ),
                        PanelQuery(
                            "sum by (instance) (switchyard_gateway_untaken_answer_bytes)", "{{instance}} answers"
                        ),
                    ),
                ),
                Graph(
                    "Open files",
                    "short",
                    (PanelQuery('process_open_fds{job="switchyard-gateway"}', "{{instance}}"),),
                ),
            ),
        ),
    ),
)
BOARDS = (FLEET, MOVES, GATEWAY)


def _target(query: PanelQuery, instant: bool) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.expression).legend_format(query.legend or "__auto")
    return target.instant() if instant else target.range()


def _graph(graph: Graph) -> timeseries.Panel:
    panel = timeseries.Panel().title(graph.title).unit(graph.unit).datasource(SOURCE)
    panel = panel.height(HEIGHT).span(WIDTH // 2).min(0)
    for number, query in enumerate(graph.queries):
        panel = panel.with_target(_target(query, instant=False).ref_id(chr(ord("A") + number)))
    return panel.description(graph.says) if graph.says else panel


def _figure(figure: Figure) -> stat.Panel:
    steps = [Threshold(value=None, color="green")]
    if figure.bad_from is not None:
        steps.append(Threshold(value=figure.bad_from, color="red"))
    if figure.bad_below is not None:
        steps = [Threshold(value=None, color="red"), Threshold(value=figure.bad_below, color="green")]
    panel = stat.Panel().title(figure.title).unit(figure.unit).datasource(SOURCE)
    panel = panel.height(STAT_HEIGHT).span(WIDTH // 6).with_target(_target(figure.query, instant=True).ref_id("A"))
    panel = panel.thresholds(dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))
    return panel.description(figure.says) if figure.says else panel


def made(board: Board) -> str:
    """The dashboard as JSON."""
    builder = dashboard.Dashboard(board.title).uid(board.file).tags(["switchyard"]).refresh("30s")
    builder = builder.time("now-1h", "now").timezone("browser").readonly().tooltip(DashboardCursorSync.CROSSHAIR)
    builder = builder.with_variable(dashboard.DatasourceVariable("datasource").type("prometheus").label("Prometheus"))
    for row in board.rows:
        builder = builder.with_row(dashboard.Row(row.title))
        for panel in row.panels:
            builder = builder.with_panel(_figure(panel) if isinstance(panel, Figure) else _graph(panel))
    return JSONEncoder(sort_keys=True, indent=2).encode(builder.build()) + "\n"


def path_of(board: Board) -> Path:
    return FOLDER / f"{board.file}.json"


if __name__ == "__main__":
    for one in BOARDS:
        path_of(one).write_text(made(one), "utf-8")
