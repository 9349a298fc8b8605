"""`kafka-delete-records`"""

from __future__ import annotations

import json
from pathlib import Path

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.client.admin.offsets import delete_records
from ottla.client.admin.topics import describe_topics
from ottla.protocol.errors import ErrorCode

_OUT_OF_RANGE = (
    "org.apache.kafka.common.errors.OffsetOutOfRangeException: The requested offset is not within the range of "
    "offsets maintained by the server."
)
_UNKNOWN = (
    "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host this "
    "topic-partition."
)


@tool.entry_point()
def main(argv: list[str]) -> int | None:
    parser = tool.Parser(
        "kafka-delete-records", "Delete the records of partitions before an offset.", """
        --bootstrap-server, --broker-list
        --command-config
        --offset-json-file FILE  {"partitions": [{"topic": "foo", "partition": 1, "offset": 7}], "version": 1}; \
offset -1 is the end
        """,
        without_any="This tool helps to delete records of the given partitions down to the specified offset.",
    )  # fmt: skip
    args = parser.options(argv)
    tool.required(args, "bootstrap-server", "offset-json-file")
    wanted = _read(args.offset_json_file)
    client = tool.connect(args)
    print("Executing records delete operation")
    topics = describe_topics(client.cluster, [topic for topic, _ in wanted], skip_missing=True)
    known = {(topic.name, each.partition) for topic in topics for each in topic.partitions}
    print("Records delete operation completed:")
    for (topic, partition), offset in wanted.items():
        if (topic, partition) not in known:
            print(f"partition: {topic}-{partition}\terror: {_UNKNOWN}")
            continue
        try:
            low = delete_records(client.cluster, {(topic, partition): None if offset == -1 else offset})
        except JobError as error:
            said = _OUT_OF_RANGE if error.code == ErrorCode.OFFSET_OUT_OF_RANGE else error.message
            print(f"partition: {topic}-{partition}\terror: {said}")
        else:
            print(f"partition: {topic}-{partition}\tlow_watermark: {low[topic, partition]}")
    # As with Kafka's tool, a refused offset shows in its line but not in the exit code.
    return 0 if known.issuperset(wanted) else 1


def _read(path: Path) -> dict[tuple[str, int], int]:
    try:
        document = json.loads(tool.read_text(path))
    except ValueError:
        raise JobError("The input string is not a valid JSON") from None
    if not isinstance(document, dict) or document.get("version", 1) != 1:
        raise JobError(
            f"Not supported version field value {document.get('version') if isinstance(document, dict) else document}"
        )
    if "partitions" not in document:
        raise JobError("Missing partitions field")
    wanted: dict[tuple[str, int], int] = {}
    twice: list[str] = []
    for entry in document["partitions"]:
        try:
            key = (str(entry["topic"]), int(entry["partition"]))
            offset = int(entry["offset"])
        except (KeyError, TypeError, ValueError):
            raise JobError(
                f"Each of the partitions needs topic, partition and offset, unlike {entry}."
            ) from None
        if key in wanted:
            twice.append(f"{key[0]}-{key[1]}")
        wanted[key] = offset
    if twice:
        raise JobError(f"Offset json file contains duplicate topic partitions: {','.join(twice)}")
    return wanted
