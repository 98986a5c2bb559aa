"""The jobs' command line: options in, rows and a summary out."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import secrets
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ha_core.model.job_summary import FAILED, REFUSED
from ha_core.model.shown import shown_lines
from spark_jobs.cuts import Demand

if TYPE_CHECKING:
    from spark_jobs.report import JobOutcome

N = TypeVar("N", int, float)
EXIT_UNUSABLE = 2
EXIT_WITHOUT_SPARK = 3
_DEMAND = Demand()


def main(arguments: list[str]) -> int:
    """Runs one job. Exit code 2: the input cannot be used, and nothing was asked or written; 3: the Spark Connect
    server is unreachable, or Spark's driver is gone, and the job can be run again."""
    options = _parser().parse_args(arguments)
    from ha_core.kafka.errors import SecurityProfileError
    from ha_core.model import UnreadableDocumentError
    from ha_core.store.errors import StoreError
    from spark_jobs.driver_watchdog import SparkGoneError
    from spark_jobs.inputs import InputError
    from spark_jobs.session import SparkConnectError

    try:
        if options.job == "mirror":
            _mirror(options)
            return 0
        if options.job == "flows":
            _flows(options)
            return 0
        outcome = _run(options)
    except (InputError, SecurityProfileError, UnreadableDocumentError) as error:
        return _failed(options, error, EXIT_UNUSABLE, REFUSED)
    except StoreError as error:
        return _failed(options, error, EXIT_UNUSABLE, FAILED)
    except (SparkConnectError, SparkGoneError) as error:
        return _failed(options, error, EXIT_WITHOUT_SPARK, FAILED)
    print(f"\n{outcome.text}\n", flush=True)
    if options.summary:
        _write(options.summary, outcome.summary)
    else:
        print(json.dumps(outcome.summary))
    return 0


def _failed(options: argparse.Namespace, error: Exception, code: int, key: str) -> int:
    """Reports the error to people and to the program that started the job, which otherwise sees only the exit code."""
    print(f"error: {shown_lines(str(error))}", file=sys.stderr)
    if getattr(options, "summary", None):  # `mirror` has none
        with contextlib.suppress(OSError):
            _write(options.summary, {"job": options.job, key: str(error)})
    return code


def _write(file: Path, summary: Mapping[str, object]) -> None:
    from spark_jobs.folder import Folder

    text = json.dumps(summary, indent=1, sort_keys=True, allow_nan=False)
    Folder(str(file.parent)).write_text(file.name, [text, "\n"])


def _mirror(options: argparse.Namespace) -> None:
    from spark_jobs.inputs import InputError
    from spark_jobs.mirror import job

    if options.remote and options.tasks is None:
        raise InputError(f"{options.remote} does not say how many tasks it runs at once. Give --tasks.")
    job.run(
        options.zookeeper,
        options.root,
        options.tasks,
        options.timeout_s,
        options.session_timeout_s,
        options.remote,
        options.sync_every_s,
        options.patterns_every_s,
        max_bytes_s=options.max_bytes_s,
        metrics_at=(options.metrics_host, options.metrics_port) if options.metrics_port else None,
    )


def _flows(options: argparse.Namespace) -> None:
    from spark_jobs import flows
    from spark_jobs.inputs import InputError

    if options.remote and options.tasks is None:
        raise InputError(f"{options.remote} does not say how many tasks it runs at once. Give --tasks.")
    if (options.file is None) == (options.declared is None):
        raise InputError("Give one of FILE and --declared.")
    if options.declared is not None and options.like_3_9:
        raise InputError("--like-3.9 belongs to the declaration: give it to `switchyard flows declare`.")
    flows.run(
        options.file,
        options.clusters,
        options.tasks,
        options.zookeeper,
        options.root,
        options.session_timeout_s,
        options.remote,
        options.like_3_9,
        options.declared or "",
    )


def _run(options: argparse.Namespace) -> JobOutcome:
    from spark_jobs import inputs
    from spark_jobs.broker_queries import Reach

    file, zookeeper = options.clusters, (options.zookeeper, options.root)
    given = inputs.from_file(file) if file else inputs.from_zookeeper(*zookeeper)
    mirrors = inputs.mirrors_of(given, options.topics, options.to) if options.job == "verify" else []
    reach = Reach(given.clusters, given.profiles, options.timeout_s, options.parallel)

    # Spark takes seconds to start, so it starts only after all other input is known to be usable.
    from spark_jobs.folder import Folder
    from spark_jobs.history import FactHistory, Keep
    from spark_jobs.questions import Questions
    from spark_jobs.session import open_session

    now_ms = time.time_ns() // 1_000_000
    history = FactHistory(options.history) if options.history else None
    folder = history.root if history else Folder(options.output)
    with (
        open_session(options.remote) as spark,
        Questions(spark, reach, folder) as ask,
    ):
        if options.job == "facts":
            from spark_jobs import facts

            assert history is not None
            return facts.record(ask, history, now_ms, Keep(days=options.keep_days))
        if options.job == "offsets":
            from spark_jobs import offsets

            assert history is not None
            demand, output = Demand._make(getattr(options, name) for name in Demand._fields), Folder(options.output)
            looking = (options.window_s, options.timestamps)
            rows, troubles = offsets.pipeline(ask, history, options.topic, demand, now_ms, *looking)
            outcome = offsets.report(rows, output, troubles, demand, now_ms)
            if options.rates:
                offsets.write_rates(spark.read.parquet(outcome.summary["path"]), options.rates, demand)
            offsets.keep(output, options.keep_results)
            return outcome
        if options.job == "verify":
            from ha_core.kafka.verifying import Coverage
            from spark_jobs import verify

            extent = Coverage(options.sample, options.seed, options.range_records)
            return verify.report(verify.pipeline(ask, mirrors, extent), Folder(options.output), extent, now_ms)
        from spark_jobs import aging

        copies = frozenset(mirror.key for mirror in given.mirrors)
        judged = aging.pipeline(
            ask, given.topics, given.homes, history, now_ms, given.crossed, copies, given.direct_groups
        )
        return aging.report(judged, Folder(options.output), now_ms, given.put_off)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="spark_jobs", description="Switchyard's Spark jobs.")
    jobs = parser.add_subparsers(dest="job", required=True)
    facts = jobs.add_parser("facts", help="record ends, specs and group commits of all clusters")
    offsets = jobs.add_parser("offsets", help="report ends, rates and suggested cuts")
    aging = jobs.add_parser("aging", help="find origins of moved partitions that are no longer needed")
    verify = jobs.add_parser("verify", help="compare mirrors with their sources")
    mirror = jobs.add_parser("mirror", help="keep the copies of topics in other clusters up to date, until SIGTERM")
    flows = jobs.add_parser("flows", help="run the flows of a MirrorMaker 2 configuration, until SIGTERM")
    for job in (facts, offsets, aging, verify, mirror, flows):
        where = job.add_mutually_exclusive_group()
        where.add_argument("--zookeeper", default=os.environ.get("SWITCHYARD_ZOOKEEPER", "127.0.0.1:2181"))
        job.add_argument("--root", default=os.environ.get("SWITCHYARD_ROOT", "/switchyard"))
        job.add_argument("--remote", metavar="sc://HOST:PORT", help="address of a Spark Connect server")
        if job in (mirror, flows):
            continue
        job.add_argument("--timeout-s", type=_seconds, default=10.0, help="timeout of a request to a cluster")
        where.add_argument("--clusters", type=Path, metavar="FILE", help="JSON file to use instead of ZooKeeper")
        job.add_argument("--parallel", type=_positive, default=4, help="number of tasks, and of connections per broker")
        job.add_argument("--summary", type=Path, metavar="FILE", help="file for the JSON summary (default: stdout)")
        job.add_argument("--history", required=job in (facts, offsets), help="folder that `facts` writes")
    facts.add_argument("--keep-days", type=_positive, default=30, help="delete older history")
    for job in (offsets, aging, verify):
        job.add_argument("--output", required=True, help="folder for the rows")
    offsets.add_argument("--topic", action="append", default=[], help="name or pattern; may be repeated (default: all)")
    offsets.add_argument("--preparation-s", type=_not_negative, default=_DEMAND.preparation_s)
    offsets.add_argument("--chance", type=_chance, default=_DEMAND.chance, help="chance of being passed too early")
    rate = "records/s for partitions without history"
    offsets.add_argument("--default-rate", type=_not_negative, default=_DEMAND.default_rate, help=rate)
    offsets.add_argument("--least-headroom", type=_count, default=_DEMAND.least_headroom, help="minimum, in records")
    offsets.add_argument("--rates", type=Path, metavar="FILE", help="write all rates as JSON, for `switchyard migrate`")
    offsets.add_argument("--keep-results", type=_positive, metavar="N", help="delete older results (default: keep all)")
    offsets.add_argument("--window-s", type=_seconds, default=48 * 3600.0, help="history from which rates are taken")
    offsets.add_argument(
        "--timestamps",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="read the timestamps of first and newest records; brokers read their files for them",
    )
    names = "names or patterns, separated by commas (default: all mirrors)"
    verify.add_argument("--topics", type=_names, default=[], metavar="TOPIC,…", help=names)
    verify.add_argument("--to", default="", metavar="CLUSTER", help="cluster that has the copies")
    verify.add_argument("--sample", type=_share, default=1.0, help="share of the ranges to compare")
    verify.add_argument("--seed", type=_seed, default="", help="seed of the sample (default: random)")
    verify.add_argument("--range-records", type=_positive, default=200_000, help="source offsets per range")
    every = "pause between reads of committed offsets"
    mirror.add_argument("--timeout-s", type=_seconds, default=10.0, help="timeout of a request to a cluster")
    mirror.add_argument("--sync-every-s", type=_seconds, default=5.0, help=every)
    looks = "pause between looks for new topics that patterns of mirrors choose"
    mirror.add_argument("--patterns-every-s", type=_seconds, default=5.0, help=looks)
    of_all = "limit of all mirrors together, split by partitions (default: none)"
    mirror.add_argument("--max-bytes-s", type=_positive, metavar="N", help=of_all)
    mirror.add_argument("--metrics-port", type=_positive, metavar="PORT", help="port for Prometheus (default: none)")
    mirror.add_argument("--metrics-host", default="127.0.0.1", help="address on which that port listens")
    flows.add_argument("file", type=Path, nargs="?", metavar="FILE", help="mm2.properties, unchanged")
    flows.add_argument("--declared", metavar="NAME", help="in place of a file: a declaration, which is followed")
    near = "only flows into these clusters: those that are near Spark"
    flows.add_argument("--clusters", nargs="+", default=[], metavar="CLUSTER", help=near)
    flows.add_argument("--like-3.9", dest="like_3_9", action="store_true", help="use Kafka 3.9's defaults")
    for job in (mirror, flows):
        job.add_argument(
            "--tasks",
            type=_positive,
            metavar="N",
            help="maximum number of tasks (default: as many as Spark runs at once)",
        )
        job.add_argument(
            "--session-timeout-s",
            type=_seconds,
            default=6.0,
            help="time after which another task takes over from a dead one",
        )
    return parser


def _number(kind: Callable[[str], N], allowed: Callable[[N], bool], words: str) -> Callable[[str], N]:
    def number(text: str) -> N:
        value = kind(text)
        if not allowed(value):
            raise argparse.ArgumentTypeError(f"{value} is not {words}")
        return value

    return number


def _names(text: str) -> list[str]:
    return [name for name in map(str.strip, text.split(",")) if name]


def _seed(text: str) -> int:
    return int(text) if text else secrets.randbits(31)


_positive = _number(int, lambda value: value >= 1, "1 or more")
_count = _number(int, lambda value: value >= 0, "0 or more")
_seconds = _number(float, lambda value: 0 < value < math.inf, "a number of seconds above 0")
_not_negative = _number(float, lambda value: 0 <= value < math.inf, "0 or more")
_share = _number(float, lambda value: 0 < value <= 1, "above 0, and 1 or less")
_chance = _number(float, lambda value: 0 < value < 1, "between 0 and 1")
