"""`kafka-log-dirs`"""

from __future__ import annotations

import json
from typing import Any

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.client.admin.log_dirs import describe_log_dirs

# Error names of Kafka's tool.
_EXCEPTIONS = {"KAFKA_STORAGE_ERROR": "org.apache.kafka.common.errors.KafkaStorageException"}


@tool.entry_point()
def main(argv: list[str]) -> None:
    parser = tool.Parser(
        "kafka-log-dirs", "Show the contents of log directories.", """
        --bootstrap-server
        --command-config
        --describe          describe the log directories of brokers
        --topic-list T1,T2  only these topics
        --broker-list 0,1   only these brokers
        """,
        without_any="This tool helps to query log directory usage on the specified brokers.",
    )  # fmt: skip
    parser.set_defaults(topic_list="", broker_list="")
    args = parser.options(argv)
    tool.required(args, "bootstrap-server", "describe")
    client = tool.connect(args)
    topics = [name for name in args.topic_list.split(",") if name]
    known = list(client.cluster.nodes())
    try:
        named = [int(number) for number in args.broker_list.split(",") if number]
    except ValueError:
        raise tool.UsageError("--broker-list is a list of broker ids: write 0,1,2") from None
    brokers = list(dict.fromkeys(named)) or known
    missing = [str(broker) for broker in brokers if broker not in known]
    if missing:
        raise JobError(
            f"ERROR: The given brokers do not exist from --broker-list: {', '.join(missing)}. "
            f"Current existent brokers: {', '.join(map(str, known))}"
        )
    print("Querying brokers for log directories information")
    described = [(broker, describe_log_dirs(client.cluster, broker, topics)) for broker in brokers]
    print(f"Received log directory information from brokers {','.join(map(str, brokers))}")
    document: dict[str, Any] = {
        "brokers": [
            {
                "broker": broker,
                "logDirs": [
                    {
                        "partitions": [
                            {
                                "partition": f"{replica.topic}-{replica.partition}",
                                "size": replica.size,
                                "offsetLag": replica.offset_lag,
                                "isFuture": replica.is_future,
                            }
                            for replica in directory.replicas
                        ],
                        "error": _EXCEPTIONS.get(directory.error or "", directory.error),
                        "logDir": directory.path,
                    }
                    for directory in directories
                ],
            }
            for broker, directories in described
        ],
        "version": 1,
    }
    print(json.dumps(document, separators=(",", ":")))
