"""Pipelines of this user on this machine that use this cluster."""

from __future__ import annotations

from ottla.console.flows.flow import Flow
from ottla.console.web.graph import Node
from ottla.console.web.visit import Visit


def add_pipelines(visit: Visit, found: Flow) -> None:
    """Add the pipelines. Reads files, so run it in a thread."""
    try:
        from ottla.spark.pipelines.state import PipelineError, Pipelines
    except ImportError:
        return
    servers = set(visit.site.settings.client.servers.split(","))
    try:
        pipelines = Pipelines().all()
    except (PipelineError, OSError) as error:
        found.problems.append(str(error))
        return
    for pipeline in pipelines:
        if not servers & set(pipeline.bootstrap_servers.split(",")):
            continue
        for query in pipeline.queries:
            name = f"{pipeline.name}/{query.name}"
            bad = str(pipeline.phase) in ("failed", "lost")
            node = found.add(Node(f"pipeline:{name}", name, "pipeline", str(pipeline.phase), "", bad))
            for topic in query.reads:
                found.link(
                    found.topic(topic),
                    node,
                    rate=query.rows_in_per_second,
                    lag=query.lag,
                    seconds=query.batch_seconds,
                )
            for topic in query.writes:
                # Not every sink counts its output.
                rate = query.rows_out_per_second
                found.link(node, found.topic(topic), rate=found.rate(topic) if rate is None else rate)
