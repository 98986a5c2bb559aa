"""The jobs' command line: options in, rows and a summary out."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.cuts import Demand
from spark_jobs.report import write_whole

if TYPE_CHECKING:
    from spark_jobs.report import Outcome

EXIT_UNUSABLE = 2
_DEMAND = Demand()


def main(arguments: list[str]) -> int:
    """Runs one job. Exit code 2: the input cannot be used, and nothing was asked or written."""
    options = _parser().parse_args(arguments)
    from ha_core.kafka.errors import SecurityProfileError
    from ha_core.model import UnreadableDocumentError
    from ha_core.store.errors import StoreError
    from spark_jobs.inputs import InputError

    try:
        outcome = _run(options)
    except (InputError, SecurityProfileError, UnreadableDocumentError, StoreError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_UNUSABLE
    print(f"\n{outcome.text}\n", flush=True)
    if options.summary:
        write_whole(options.summary, [json.dumps(outcome.summary, indent=1, sort_keys=True, allow_nan=False), "\n"])
    else:
        print(json.dumps(outcome.summary))
    return 0


def _run(options: argparse.Namespace) -> Outcome:
    from spark_jobs import inputs
    from spark_jobs.asking import Reach

    file, zookeeper = options.clusters, (options.zookeeper, options.root)
    given = inputs.from_file(file) if file else inputs.from_zookeeper(*zookeeper)
    demand = _demand(options) if options.job == "offsets" else None
    reach = Reach(given.clusters, given.profiles, options.timeout_s, options.parallel)

    # Spark takes seconds to start: only once everything else is known to be usable.
    from spark_jobs.folder import Folder
    from spark_jobs.history import History, Keep
    from spark_jobs.questions import Questions
    from spark_jobs.session import open_session

    now_ms = time.time_ns() // 1_000_000
    history = History(options.history) if options.history else None
    folder = history.root if history else Folder(options.output)
    with (
        open_session(f"switchyard {options.job}", options.remote) as spark,
        Questions(spark, reach, folder) as ask,
    ):
        if options.job == "facts":
            from spark_jobs import facts

            assert history is not None
            return facts.record(ask, history, now_ms, Keep(days=options.keep_days))
        if demand is not None:
            from spark_jobs import offsets

            assert history is not None
            selection, output = offsets.selection(options.topic), Folder(options.output)
            looking = (options.window_s, options.timestamps)
            rows, troubles = offsets.pipeline(ask, history, selection, demand, now_ms, *looking)
            outcome = offsets.report(rows, output, troubles, demand, now_ms)
            if options.rates:
                offsets.write_rates(spark.read.parquet(outcome.summary["path"]), options.rates, demand)
            offsets.keep(output, options.keep_results)
            return outcome
        from spark_jobs import aging

        judged = aging.pipeline(ask, given.topics, given.homes, history, now_ms, given.crossed)
        return aging.report(judged, Folder(options.output), now_ms, given.put_off)


def _demand(options: argparse.Namespace) -> Demand:
    from spark_jobs.inputs import InputError

    try:
        return Demand(**{name: getattr(options, name) for name in Demand._fields}).checked()
    except ValueError as error:
        raise InputError(f"{error}. Correct the option.") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="spark_jobs", description="Switchyard's Spark jobs.")
    jobs = parser.add_subparsers(dest="job", required=True)
    facts = jobs.add_parser("facts", help="record ends, specs and group commits of all clusters")
    offsets = jobs.add_parser("offsets", help="ends, rates and suggested cuts")
    aging = jobs.add_parser("aging", help="which origins of moved partitions are still needed")
    for job in (facts, offsets, aging):
        where = job.add_mutually_exclusive_group()
        where.add_argument("--zookeeper", default=os.environ.get("SWITCHYARD_ZOOKEEPER", "127.0.0.1:2181"))
        where.add_argument("--clusters", type=Path, metavar="FILE", help="JSON in place of ZooKeeper")
        job.add_argument("--root", default=os.environ.get("SWITCHYARD_ROOT", "/switchyard"))
        job.add_argument("--parallel", type=_positive, default=4, help="tasks, and connections to one broker")
        job.add_argument("--timeout-s", type=_seconds, default=10.0, help="of one request to a cluster")
        job.add_argument("--summary", type=Path, metavar="FILE", help="where the JSON summary goes, else to stdout")
        job.add_argument("--remote", metavar="sc://HOST:PORT", help="a Spark Connect server")
        job.add_argument("--history", required=job is not aging, help="folder that `facts` writes")
    facts.add_argument("--keep-days", type=_positive, default=30, help="older history is deleted")
    for job in (offsets, aging):
        job.add_argument("--output", required=True, help="folder for the rows")
    offsets.add_argument("--topic", action="append", default=[], help="name or pattern, repeated; without it, all")
    offsets.add_argument("--preparation-s", type=float, default=_DEMAND.preparation_s)
    offsets.add_argument("--chance", type=float, default=_DEMAND.chance, help="of being passed too early")
    offsets.add_argument("--default-rate", type=float, default=_DEMAND.default_rate, help="records/s without history")
    offsets.add_argument("--least-headroom", type=int, default=_DEMAND.least_headroom, help="records")
    offsets.add_argument("--rates", type=Path, metavar="FILE", help="all rates as JSON, for `switchyard migrate`")
    offsets.add_argument("--keep-results", type=_positive, metavar="N", help="older ones are deleted; without it, none")
    offsets.add_argument("--window-s", type=_seconds, default=48 * 3600.0, help="how far back rates look")
    offsets.add_argument(
        "--timestamps",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="of each partition's first and newest record; brokers read their files for them",
    )
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not 1 or more")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{value} is not a number of seconds above 0")
    return value
