"""Messages between clients, brokers and coordinators: one module per family, and a table by API key."""

from __future__ import annotations

from importlib import import_module

from ottla.protocol.codec import Request, Response

_FAMILIES: dict[str, dict[int, str]] = {
    "produce": {
        0: "Produce",
        10001: "MirrorAppend",
    },
    "fetch": {
        1: "Fetch",
        2: "ListOffsets",
        21: "DeleteRecords",
        23: "OffsetForLeaderEpoch",
    },
    "cluster": {
        3: "Metadata",
        10: "FindCoordinator",
        18: "ApiVersions",
        57: "UpdateFeatures",
        60: "DescribeCluster",
        64: "UnregisterBroker",
        75: "DescribeTopicPartitions",
        71: "GetTelemetrySubscriptions",
        72: "PushTelemetry",
    },
    "topics": {
        19: "CreateTopics",
        20: "DeleteTopics",
        37: "CreatePartitions",
    },
    "configs": {
        32: "DescribeConfigs",
        33: "AlterConfigs",
        44: "IncrementalAlterConfigs",
        74: "ListConfigResources",
        48: "DescribeClientQuotas",
        49: "AlterClientQuotas",
    },
    "groups": {
        11: "JoinGroup",
        12: "Heartbeat",
        13: "LeaveGroup",
        14: "SyncGroup",
        15: "DescribeGroups",
        16: "ListGroups",
        42: "DeleteGroups",
    },
    "consumer_groups": {
        68: "ConsumerGroupHeartbeat",
        69: "ConsumerGroupDescribe",
    },
    "offsets": {
        8: "OffsetCommit",
        9: "OffsetFetch",
        47: "OffsetDelete",
    },
    "transactions": {
        22: "InitProducerId",
        24: "AddPartitionsToTxn",
        25: "AddOffsetsToTxn",
        26: "EndTxn",
        27: "WriteTxnMarkers",
        28: "TxnOffsetCommit",
        61: "DescribeProducers",
        65: "DescribeTransactions",
        66: "ListTransactions",
    },
    "share_groups": {
        76: "ShareGroupHeartbeat",
        77: "ShareGroupDescribe",
        90: "DescribeShareGroupOffsets",
        91: "AlterShareGroupOffsets",
        92: "DeleteShareGroupOffsets",
    },
    "share_fetch": {
        78: "ShareFetch",
        79: "ShareAcknowledge",
    },
    "share_state": {
        83: "InitializeShareGroupState",
        84: "ReadShareGroupState",
        85: "WriteShareGroupState",
        86: "DeleteShareGroupState",
        87: "ReadShareGroupStateSummary",
    },
    "streams_groups": {
        88: "StreamsGroupHeartbeat",
        89: "StreamsGroupDescribe",
        93: "StreamsGroupTopologyDescriptionUpdate",
    },
    "acls": {
        29: "DescribeAcls",
        30: "CreateAcls",
        31: "DeleteAcls",
    },
    "sasl": {
        17: "SaslHandshake",
        36: "SaslAuthenticate",
        50: "DescribeUserScramCredentials",
        51: "AlterUserScramCredentials",
        38: "CreateDelegationToken",
        39: "RenewDelegationToken",
        40: "ExpireDelegationToken",
        41: "DescribeDelegationToken",
    },
    "replicas": {
        34: "AlterReplicaLogDirs",
        35: "DescribeLogDirs",
        43: "ElectLeaders",
        45: "AlterPartitionReassignments",
        46: "ListPartitionReassignments",
    },
}
_MODULES = {key: family for family, names in _FAMILIES.items() for key in names}

API_NAMES = dict(sorted((key, name) for names in _FAMILIES.values() for key, name in names.items()))


def request_type(key: int) -> type[Request]:
    """Return the request class of an API, importing its module on first use."""
    return _message_type(key, "Request")


def response_type(key: int) -> type[Response]:
    return _message_type(key, "Response")


def _message_type(key: int, direction: str) -> type:
    module = import_module(f"{__name__}.{_MODULES[key]}")
    message: type = getattr(module, API_NAMES[key] + direction)
    return message
