"""`kafka-broker-api-versions`"""

from __future__ import annotations

from ottla.cli.client import Client
from ottla.cli.kafka import tool

# Every API of Kafka 4.3's clients with its newest version. APIs that a broker lacks are listed as well.
_NAMES = (
    "Produce:0:13 Fetch:1:18 ListOffsets:2:11 Metadata:3:13 OffsetCommit:8:10 OffsetFetch:9:10 "
    "FindCoordinator:10:6 JoinGroup:11:9 Heartbeat:12:4 LeaveGroup:13:5 SyncGroup:14:5 DescribeGroups:15:6 "
    "ListGroups:16:5 SaslHandshake:17:1 ApiVersions:18:4 CreateTopics:19:7 DeleteTopics:20:6 DeleteRecords:21:2 "
    "InitProducerId:22:5 OffsetForLeaderEpoch:23:4 AddPartitionsToTxn:24:5 AddOffsetsToTxn:25:4 EndTxn:26:5 "
    "WriteTxnMarkers:27:2 TxnOffsetCommit:28:5 DescribeAcls:29:3 CreateAcls:30:3 DeleteAcls:31:3 "
    "DescribeConfigs:32:4 AlterConfigs:33:2 AlterReplicaLogDirs:34:2 DescribeLogDirs:35:5 SaslAuthenticate:36:2 "
    "CreatePartitions:37:3 CreateDelegationToken:38:3 RenewDelegationToken:39:2 ExpireDelegationToken:40:2 "
    "DescribeDelegationToken:41:3 DeleteGroups:42:2 ElectLeaders:43:2 IncrementalAlterConfigs:44:1 "
    "AlterPartitionReassignments:45:1 ListPartitionReassignments:46:0 OffsetDelete:47:0 "
    "DescribeClientQuotas:48:1 AlterClientQuotas:49:1 DescribeUserScramCredentials:50:0 "
    "AlterUserScramCredentials:51:0 DescribeQuorum:55:2 UpdateFeatures:57:2 DescribeCluster:60:2 "
    "DescribeProducers:61:0 UnregisterBroker:64:0 DescribeTransactions:65:0 ListTransactions:66:2 "
    "ConsumerGroupHeartbeat:68:1 ConsumerGroupDescribe:69:1 GetTelemetrySubscriptions:71:0 PushTelemetry:72:0 "
    "ListConfigResources:74:1 DescribeTopicPartitions:75:0 ShareGroupHeartbeat:76:1 ShareGroupDescribe:77:1 "
    "ShareFetch:78:2 ShareAcknowledge:79:2 AddRaftVoter:80:1 RemoveRaftVoter:81:0 "
    "InitializeShareGroupState:83:0 ReadShareGroupState:84:0 WriteShareGroupState:85:1 "
    "DeleteShareGroupState:86:0 ReadShareGroupStateSummary:87:1 StreamsGroupHeartbeat:88:1 "
    "StreamsGroupDescribe:89:1 DescribeShareGroupOffsets:90:1 AlterShareGroupOffsets:91:0 "
    "DeleteShareGroupOffsets:92:0 StreamsGroupTopologyDescriptionUpdate:93:0"
)
KNOWN = {int(key): (name, int(newest)) for name, key, newest in (part.split(":") for part in _NAMES.split())}


@tool.entry_point()
def main(argv: list[str]) -> None:
    parser = tool.Parser(
        "kafka-broker-api-versions", "Show the API versions of each broker.", """
        --bootstrap-server, --broker-list
        --command-config
        """,
        without_any="This tool helps to retrieve broker version information.",
    )  # fmt: skip
    args = parser.options(argv)
    tool.required(args, "bootstrap-server")
    print_versions(tool.connect(args))


def print_versions(client: Client) -> None:
    for node in client.cluster.nodes().values():
        rack = "null" if node.rack is None else node.rack
        print(f"{node.host}:{node.port} (id: {node.id} rack: {rack} isFenced: false) -> (")
        print(",\n".join(_lines(client.cluster.node(node.id).versions)))
        print(")")


def _lines(versions: dict[int, tuple[int, int]]) -> list[str]:
    lines = []
    for key in sorted(KNOWN.keys() | versions.keys()):
        name, newest = KNOWN.get(key, ("UNKNOWN", -1))
        if key not in versions:
            lines.append(f"\t{name}({key}): UNSUPPORTED")
            continue
        low, high = versions[key]
        span = f"{low}" if low == high else f"{low} to {high}"
        usable = f" [usable: {min(high, newest)}]" if newest >= low else " [unusable: node too new]"
        lines.append(f"\t{name}({key}): {span}{usable if newest >= 0 else ''}")
    return lines
