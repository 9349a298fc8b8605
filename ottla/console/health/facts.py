"""Facts from which problems follow: plain data, without the servers they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ottla.console.access.roles import Level, User
from ottla.console.cluster.snapshot import Snapshot

#: Measurements over time: seconds, value.
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class TaskFacts:
    number: int
    state: str
    cause: str = ""


@dataclass(frozen=True, slots=True)
class ConnectorFacts:
    name: str
    state: str
    cause: str = ""
    tasks: tuple[TaskFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """A query of SQL or a pipeline."""

    name: str
    state: str
    cause: str = ""


@dataclass(frozen=True, slots=True)
class DeadLetterFacts:
    """`waiting` letters have not been sent back; `ends` is the growth of the topic."""

    topic: str
    waiting: int
    ends: Points = ()


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """`server` is the address that presents the certificate."""

    server: str
    subject: str
    days_left: float


@dataclass(frozen=True, slots=True)
class AuditFacts:
    """A discrepancy of the count audit."""

    topic: str
    tier: str
    kind: str
    missing: int


@dataclass(frozen=True)
class Observed:
    """Facts about the services beside a cluster."""

    connectors: tuple[ConnectorFacts, ...] = ()
    queries: tuple[QueryFacts, ...] = ()
    pipelines: tuple[QueryFacts, ...] = ()
    mirrors: Mapping[str, Points] = field(default_factory=dict)  # lag over time
    dead_letters: tuple[DeadLetterFacts, ...] = ()
    certificates: tuple[CertificateFacts, ...] = ()
    audit: tuple[AuditFacts, ...] = ()
    #: Failures of services to answer, by name.
    silent: Mapping[str, str] = field(default_factory=dict)

    def seen_by(self, user: User) -> Observed:
        sees, sees_connector = user.view("topic"), user.view("connector")
        everywhere = user.may_everywhere(Level.VIEWER)
        return replace(
            self,
            connectors=tuple(each for each in self.connectors if sees_connector(each.name)),
            queries=self.queries if everywhere or user.may(Level.OPERATOR, "sql") else (),
            pipelines=self.pipelines if everywhere else (),
            mirrors=self.mirrors if everywhere else {},
            dead_letters=tuple(each for each in self.dead_letters if sees(each.topic)),
            certificates=self.certificates if everywhere else (),
            audit=tuple(each for each in self.audit if sees(each.topic)),
            silent=self.silent if everywhere else {},
        )


@dataclass(frozen=True)
class Facts:
    """`silent_seconds` is the time since the cluster's last answer, if one is overdue."""

    snapshot: Snapshot
    now: float = 0.0
    silent_seconds: float | None = None
    lags: Mapping[str, Points] = field(default_factory=dict)  # of groups, over time
    observed: Observed = field(default_factory=Observed)
    #: Why the console cannot write its own audit log.
    audit_log: str | None = None
