"""The clients under test, with their capabilities."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from .capabilities import (
    ADMIN,
    ASSIGNORS,
    BROKER_ASSIGNORS,
    CODECS,
    GROUPS,
    POSITIONS,
    SHARE_GROUP_ADMIN,
    SHARE_GROUPS,
    TRAITS,
    TRANSACTIONS,
    assignors,
    codecs,
    logins,
)
from .client import HERE, AgentClient, Client
from .kcat import KcatClient
from .security.logins import MECHANISMS


class PythonClient(AgentClient):
    module: ClassVar[str]

    @classmethod
    def version(cls) -> str:
        return version(cls.title)

    def command(self, mode: str) -> list[str]:
        return [sys.executable, "-m", f"agents.{self.module}", mode]


class ConfluentClient(PythonClient):
    name = "confluent"
    title = "confluent-kafka"
    module = "confluent"
    capabilities = (
        TRAITS
        | GROUPS
        | POSITIONS
        | TRANSACTIONS
        | SHARE_GROUPS
        | ADMIN
        | codecs(*CODECS)
        | assignors("range", "roundrobin", "cooperative-sticky", *BROKER_ASSIGNORS)
        | {
            "null headers",
            "no auto-creation",
            "replacing alter_configs",
            "broker defaults",
            "config errors",
            "newer errors",
        }
        | {"list_offsets", "incremental_alter_configs", "delete_group", "alter_group_offsets"}
        # The wheels lack libsasl2, and thus GSSAPI.
        | logins("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
    )


class KafkaPythonClient(PythonClient):
    name = "kafka-python"
    title = "kafka-python"
    module = "kafka_python"
    capabilities = (
        TRAITS
        | GROUPS
        | POSITIONS
        | TRANSACTIONS
        | ADMIN
        | codecs("none", "gzip")
        # The other codecs need packages that kafka-python does not install.
        | codecs(
            *(
                codec
                for codec, package in (("snappy", "snappy"), ("lz4", "lz4"), ("zstd", "zstandard"))
                if find_spec(package)
            )
        )
        | assignors(*ASSIGNORS)
        | logins(*MECHANISMS)
        | {"no auto-creation", "list_offsets", "incremental_alter_configs", "delete_group"}
        | {
            "alter_group_offsets",
            "list_share_groups",
            "delete_group_offsets",
            "log_dirs",
            "describe_producers",
            "broker defaults",
            "newer errors",
        }
    )


class AiokafkaClient(PythonClient):
    name = "aiokafka"
    title = "aiokafka"
    module = "aiokafka"
    capabilities = (
        TRAITS
        | GROUPS
        | POSITIONS
        | TRANSACTIONS
        | ADMIN
        | codecs(*CODECS)
        | assignors("range", "roundrobin", "sticky")
        | logins(*MECHANISMS)
        | {"null headers", "replacing alter_configs", "config errors"}
    )


class JavaClient(AgentClient):
    """kafka-clients, driven by a small program compiled once per session."""

    name = "java"
    title = "Java"
    from_pypi = False
    capabilities = (
        TRAITS
        | GROUPS
        | POSITIONS
        | TRANSACTIONS
        | SHARE_GROUPS
        | SHARE_GROUP_ADMIN
        | {"renewed locks"}
        | {"patterns of RE2"}  # confluent-kafka matches again on its side, in POSIX notation
        | ADMIN - {"alter_configs"}  # the client has only the incremental call
        | codecs(*CODECS)
        | assignors(*ASSIGNORS, *BROKER_ASSIGNORS)
        | logins(*MECHANISMS)
        | {"null headers", "no auto-creation", "broker defaults", "config errors", "newer errors"}
        | {"list_offsets", "incremental_alter_configs", "delete_group", "alter_group_offsets"}
        | {"delete_group_offsets", "log_dirs", "describe_producers"}
    )
    # The processes are short-lived, so optimise for a fast start.
    jvm = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m")

    def __init__(self, bootstrap: str, directory: Path) -> None:
        super().__init__(bootstrap, directory)
        self._classes: Path | None = None

    @classmethod
    def unavailable(cls) -> str | None:
        try:
            from bench.peers.apache_kafka import Unavailable
        except ImportError:
            return "the Java client is found through bench.peers.apache_kafka: run `python -m pytest` at the root"
        try:
            cls.classpath()
        except Unavailable as reason:
            return str(reason)
        return None

    @classmethod
    def version(cls) -> str:
        if cls.unavailable() is not None:
            return ""
        from bench.peers.apache_kafka import VERSION

        return VERSION

    @classmethod
    def classpath(cls) -> str:
        from bench.peers.apache_kafka import kafka_classpath

        return kafka_classpath()

    def command(self, mode: str) -> list[str]:
        from bench.peers.apache_kafka import java

        if self._classes is None:
            self._classes = self.directory / "classes"
            sources = map(str, (HERE / "java").glob("*.java"))
            javac = str(Path(java()).with_name("javac"))
            arguments = ["-d", str(self._classes), "-cp", self.classpath(), *sources]
            subprocess.run([javac, "-proc:none", *arguments], check=True, timeout=120)
        classpath = f"{self._classes}:{self.classpath()}"
        return [java(), *self.jvm, "-cp", classpath, "OttlaClient", mode]


class NewestJavaClient(JavaClient):
    name = "java-newest"

    @classmethod
    def version(cls) -> str:
        if cls.unavailable() is not None:
            return ""
        from bench.peers.apache_kafka import NEWEST_CLIENTS

        return NEWEST_CLIENTS

    @classmethod
    def classpath(cls) -> str:
        from bench.peers.apache_kafka import NEWEST_CLIENTS, client_classpath

        return client_classpath(NEWEST_CLIENTS)


CLIENTS: tuple[type[Client], ...] = (
    ConfluentClient,
    KafkaPythonClient,
    AiokafkaClient,
    KcatClient,
    JavaClient,
    NewestJavaClient,
)
