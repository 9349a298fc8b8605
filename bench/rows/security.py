"""What logins and ACLs cost."""

from __future__ import annotations

from bench.measuring.experiment import Experiment, Figures, Row, Scale, run_client, topic_on
from bench.measuring.wire import free_port
from bench.peers.brokers import Contestant, Fresh, Secured, running
from bench.rows.metadata import leader_port

_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_ROUNDS = 5


def logins() -> Experiment:
    p50 = Row("connect and log in with SCRAM-SHA-512, p50", "µs", "lower")
    p99 = Row("connect and log in with SCRAM-SHA-512, p99", "µs", "lower")
    settings = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": _SCRAM,
    }

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        secured = Secured("SASL_PLAINTEXT", free_port(), settings)
        user = {"user": "ann", "password": "a pencil"}
        with running(contestant, secured) as broker:
            run_client("add_user", bootstrap=broker.bootstrap_servers, **user)
            found = run_client(
                "logins", port=secured.port, mechanism="SCRAM-SHA-512", count=scale.logins, **user
            )
        return {p50.name: found["p50_us"], p99.name: found["p99_us"]}

    return Experiment((p50, p99), measure)


def acls(count: int) -> Experiment:
    row = Row(f"one-record Produce requests, pipelined: {count:,} ACLs cost", "%", "lower")
    settings = {"authorizer.class.name": _AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        """The same requests to two brokers in turn: one that asks an authorizer, and one that does not."""
        secured = Secured("SASL_PLAINTEXT", free_port(), {**settings, **_nobody()})
        with running(contestant, secured) as asking, Fresh(contestant) as free:
            best = {asking: 0.0, free: 0.0}
            with topic_on(asking, 1) as theirs, topic_on(free, 1) as ours:
                run_client("add_acls", bootstrap=asking.bootstrap_servers, topic=theirs, count=count)
                for _ in range(_ROUNDS):
                    for broker, topic in ((asking, theirs), (free, ours)):
                        port = leader_port(broker.bootstrap_servers, topic)
                        work = {"host": "127.0.0.1", "port": port, "topic": topic, "size": 100}
                        found = run_client("requests", count=scale.requests, **work)
                        best[broker] = max(best[broker], found["requests_per_s"])
        return {row.name: 100 * (1 - best[asking] / best[free])}

    return Experiment((row,), measure)


def _nobody() -> dict[str, str]:
    """The second listener is not used here, and has no users."""
    return {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": _SCRAM,
    }
