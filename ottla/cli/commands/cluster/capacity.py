"""`ottla capacity`"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from ottla.cli import output
from ottla.cli.client import Client
from ottla.cli.errors import JobError
from ottla.cli.options import client_options, count_option, json_option, seconds_option
from ottla.cli.values import size_parameter

if TYPE_CHECKING:
    from ottla.monitoring.capacity.advice import Limits
    from ottla.monitoring.capacity.load import ClusterFacts

_COLUMNS = (
    "BROKER",
    "REPLICAS",
    "LEADERS",
    "IN",
    "OUT",
    "STORED",
    "DISK USED",
    "DISK LATER",
    "FULL IN",
    "BUSY",
)


@dataclass(frozen=True)
class Question:
    """A what-if question. None keeps the measured value."""

    brokers: int | None
    growth: float
    retention_hours: float | None
    replication_factor: int | None
    groups: int | None

    @property
    def is_asked(self) -> bool:
        return self != Question(None, 1.0, None, None, None)


@click.command(short_help="Measure load and headroom, and recommend changes.")
@seconds_option("--seconds", default=5.0, help="Time to measure.")
@click.option(
    "--network",
    type=size_parameter,
    metavar="RATE",
    help="Network bandwidth of a broker in each direction, such as 1Gbit.",
)
@click.option(
    "--disk",
    type=size_parameter,
    metavar="SIZE",
    help="Disk size of a broker, such as 2TB, if brokers do not report it.",
)
@count_option(
    "--max-replicas", default=4000, show_default=True, help="Recommended maximum of partitions per broker."
)
@click.option(
    "--metrics",
    "urls",
    multiple=True,
    metavar="URL",
    help="Metrics endpoint of a broker, to read its load.",
)
@click.option(
    "--target-rate",
    type=size_parameter,
    metavar="RATE",
    help="Recommend partitions for a topic with this rate.",
)
@count_option("--consumers", default=1, show_default=True, help="Number of consumers that share that topic.")
@click.option(
    "--partition-produce-rate", type=size_parameter, metavar="RATE", help="Produce rate of one partition."
)
@click.option(
    "--partition-consume-rate", type=size_parameter, metavar="RATE", help="Consume rate of one partition."
)
@seconds_option("--probe", help="Measure both rates by writing to a temporary topic for this time.")
@count_option("--brokers", help="Estimate for this number of brokers.")
@click.option(
    "--growth",
    type=click.FloatRange(min=0),
    default=1.0,
    metavar="X",
    help="Estimate for X times the rates.",
)
@click.option(
    "--retention-hours", type=click.FloatRange(min=0), metavar="H", help="Estimate for this retention."
)
@count_option("--replication-factor", help="Estimate for this replication factor.")
@count_option("--groups", at_least=0, help="Estimate for this number of groups that read everything.")
@json_option()
@client_options
def capacity(
    client: Client,
    seconds: float,
    network: float | None,
    disk: float | None,
    max_replicas: int,
    urls: tuple[str, ...],
    target_rate: float | None,
    consumers: int,
    partition_produce_rate: float | None,
    partition_consume_rate: float | None,
    probe: float | None,
    brokers: int | None,
    growth: float,
    retention_hours: float | None,
    replication_factor: int | None,
    groups: int | None,
    as_json: bool,
) -> None:
    """Measure the load of any Kafka cluster. Report its headroom, whether it survives the loss of a broker, when its
    disks will be full, and recommended changes.

    docs/how-to/plan-capacity.md has the formulas.

    \b
    Examples:
      ottla capacity
      ottla capacity --network 1Gbit --seconds 60
      ottla capacity --target-rate 50MB --consumers 12 --probe 5
      ottla capacity --growth 3 --brokers 5 --retention-hours 72
    """
    from ottla.client.errors import ClientError
    from ottla.monitoring.capacity import advice
    from ottla.monitoring.capacity.load import loads, losses
    from ottla.monitoring.capacity.measuring import measure, read_idle

    limits = advice.Limits(network=network, disk=None if disk is None else int(disk), replicas=max_replicas)
    try:
        facts, failures = measure(client.cluster, seconds)
        rates = _partition_rates(client, partition_produce_rate, partition_consume_rate, probe)
    except ClientError as error:
        raise JobError(error.message) from None
    facts, unread = read_idle(facts, urls)
    for failure in [*failures, *unread]:
        output.warn(failure)
    now, lost = loads(facts), losses(facts)
    found: dict[str, Any] = {
        "seconds": facts.seconds,
        "brokers": {broker: _broker(facts, now, broker, limits) for broker in sorted(now.brokers)},
        "topics": len({topic for topic, _ in facts.partitions}),
        "partitions": len(facts.partitions),
        "groups": facts.groups,
        "bytes_in": sum(each.byte_rate for each in facts.partitions.values()),
        "records_in": sum(each.record_rate for each in facts.partitions.values()),
        "bytes_read": sum(each.read_rate for each in facts.partitions.values()),
        "losses": [
            {"broker": each.broker, "offline": len(each.offline), "read_only": len(each.read_only),
             "busiest": each.busiest}
            for each in lost
        ],
        "survives": not any(each.offline or each.read_only for each in lost),
        "advice": advice.advice(facts, now, lost, limits),
    }  # fmt: skip
    if rates is not None:
        found["partition_rates"] = {"produce": rates[0], "consume": rates[1]}
    if target_rate is not None:
        found["partitions_wanted"] = _wanted(target_rate, rates, consumers)
    question = Question(brokers, growth, retention_hours, replication_factor, groups)
    if question.is_asked:
        found["what_if"] = _what_if(facts, question, limits)
    if as_json:
        output.print_json(found)
    else:
        _print(found, target_rate)


def _partition_rates(
    client: Client, produce: float | None, consume: float | None, seconds: float | None
) -> tuple[float, float] | None:
    if seconds is not None:
        from ottla.monitoring.capacity.measuring import probe

        measured = probe(client.cluster, seconds)
        return produce or measured[0], consume or measured[1]
    if produce is None and consume is None:
        return None
    known = produce or consume
    assert known is not None
    return produce or known, consume or known


def _wanted(target: float, rates: tuple[float, float] | None, consumers: int) -> int:
    from ottla.monitoring.capacity.advice import partitions_for

    if rates is None:
        raise JobError(
            "The number of partitions depends on the rate of one: measure it with --probe 5, or pass "
            "--partition-produce-rate and --partition-consume-rate."
        )
    return partitions_for(target, *rates, consumers)


def _broker(facts: ClusterFacts, now: Any, broker: int, limits: Limits) -> dict[str, Any]:
    from ottla.monitoring.capacity.advice import disk_outlook

    idle = facts.brokers[broker].idle
    later = asdict(disk_outlook(facts, now, broker, limits))
    if later["later"] == float("inf"):
        later["later"] = None
    load = asdict(now.brokers[broker])
    del load["stored_later"]
    return {**load, "disk": later, "busy": None if idle is None else 1 - idle}


def _what_if(facts: ClusterFacts, question: Question, limits: Limits) -> dict[str, Any]:
    from ottla.monitoring.capacity.advice import Plan, brokers_for, needs

    known = facts.partitions.values()
    ingress = sum(each.byte_rate for each in known)
    copies = sum(each.byte_rate * len(each.replicas) for each in known)
    weights = [
        (each.byte_rate, retention / 1000)
        for name, each in facts.partitions.items()
        if (retention := facts.settings(name[0]).retention_ms) is not None
    ]
    usual = sum(weight * value for weight, value in weights) / max(sum(weight for weight, _ in weights), 1e-9)
    plan = Plan(
        ingress * question.growth,
        question.replication_factor or (copies / ingress if ingress else 1.0),
        sum(each.read_rate for each in known) / ingress
        if question.groups is None and ingress
        else question.groups or 0,
        usual if question.retention_hours is None else question.retention_hours * 3600,
        question.brokers or len(facts.brokers),
    )
    disks = [each.total for each in facts.brokers.values() if each.total is not None]
    disk = limits.disk or (min(disks) if disks else None)
    return {
        **asdict(plan),
        **asdict(needs(plan)),
        "brokers_wanted": brokers_for(plan, disk=disk, network=limits.network),
    }


def _print(found: dict[str, Any], target: float | None) -> None:
    from ottla.monitoring.capacity.advice import duration, rate

    click.echo(
        f"In {found['seconds']:.1f} s: {rate(found['bytes_in'])} and {found['records_in']:,.0f} records/s written, "
        f"{rate(found['bytes_read'])} read by {found['groups']} groups; {found['partitions']:,} partitions of "
        f"{found['topics']:,} topics.\n"
    )
    rows = []
    for broker, each in found["brokers"].items():
        disk = each["disk"]
        rows.append(
            (
                broker,
                each["replicas"],
                each["leaders"],
                rate(each["bytes_in"]),
                rate(each["bytes_out"]),
                output.human_bytes(each["stored"]),
                _share(disk["used"]),
                _share(disk["later"]),
                "-" if disk["full_in"] is None else duration(disk["full_in"]),
                _share(each["busy"]),
            )
        )
    output.print_table(_COLUMNS, rows)
    click.echo()
    survives = "survives" if found["survives"] else "does not survive"
    click.echo(click.style(f"The cluster {survives} the loss of any one broker.", bold=True))
    if (rates := found.get("partition_rates")) is not None:
        click.echo(f"One partition takes {rate(rates['produce'])} and gives {rate(rates['consume'])}.")
    if target is not None:
        click.echo(f"For {rate(target)} a topic needs {found['partitions_wanted']} partitions.")
    if (what_if := found.get("what_if")) is not None:
        click.echo(
            f"\nWith {what_if['brokers']} brokers, {rate(what_if['ingress'])} written, "
            f"{what_if['replication_factor']:.1f} replicas, {what_if['groups']:.1f} groups and "
            f"{duration(what_if['retention'])} kept, each broker needs, while one is away:"
        )
        click.echo(
            f"  {rate(what_if['bytes_in'])} in, {rate(what_if['bytes_out'])} out, "
            f"{output.human_bytes(int(what_if['disk']))} of disk. "
            f"{what_if['brokers_wanted']} brokers would do."
        )
    if found["advice"]:
        click.echo("\nAdvice")
        for sentence in found["advice"]:
            click.echo(f"- {sentence}")


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
