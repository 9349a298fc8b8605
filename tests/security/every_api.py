"""A request for every API that requires rights, and the refusals in its response.

The same requests go to Ottla and to Apache Kafka, so they have little effect: each change is refused for another
reason, or only validated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ottla.protocol.codec import Request, Response, Struct
from ottla.protocol.messages import (
    acls,
    cluster,
    configs,
    consumer_groups,
    fetch,
    groups,
    offsets,
    produce,
    replicas,
    share_fetch,
    share_groups,
    share_state,
    streams_groups,
    topics,
    transactions,
)
from ottla.protocol.messages import configs as quotas
from ottla.protocol.messages import produce as mirror
from ottla.protocol.messages import sasl as delegation_tokens
from ottla.protocol.messages import sasl as scram
from ottla.protocol.records import Record, build_batch

# Served to everybody: APIs before and during the login, broker information, the user's own tokens, and the client's own
# metrics.
FREE = {17, 18, 36, 39, 40, 41, 60, 71, 72}
# APIs that filter their results without a trace.
SILENT = {
    "3 Metadata all", "16 ListGroups", "60 DescribeCluster", "66 ListTransactions", "75 DescribeTopicPartitions all",
}  # fmt: skip
AUTHORIZATION = {29, 30, 31, 53, 65}
UNKNOWN_TOPIC_ID = 100


@dataclass(frozen=True)
class Names:
    """Names for the requests. `topics` exist, with ids for requests that use ids."""

    topics: dict[str, bytes]
    group: str = "g"
    transactional_id: str = "x"
    missing: str = "missing"


@dataclass(frozen=True)
class Case:
    name: str
    request: Request
    version: int | None = None

    @property
    def key(self) -> int:
        return self.request.api_key


def cases(names: Names) -> list[Case]:
    return [
        Case(
            f"{request.api_key} {type(request).__name__.removesuffix('Request')} {note}".strip(),
            request,
            version,
        )
        for note, request, version in _requests(names)
    ]


def _batch(transactional: bool) -> bytes:
    if transactional:
        return bytes(
            build_batch(
                [Record(0, 0, None, b"v")],
                producer_id=7,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
            )
        )
    return bytes(build_batch([Record(0, 0, None, b"v")]))


def _requests(names: Names) -> Iterator[tuple[str, Request, int | None]]:
    every = list(names.topics)
    ids = list(names.topics.values())
    named = [*every, names.missing]
    group, txn = names.group, names.transactional_id
    for transactional_id in (None, txn):
        data = _batch(transactional_id is not None)
        yield (
            "transactional" if transactional_id else "",
            produce.ProduceRequest(
                transactional_id=transactional_id,
                acks=-1,
                timeout_ms=5000,
                topic_data=[
                    produce.TopicProduceData(
                        name=name, partition_data=[produce.PartitionProduceData(index=0, records=data)]
                    )
                    for name in named
                ],
            ),
            9,
        )
    yield (
        "by id",
        produce.ProduceRequest(
            acks=-1,
            timeout_ms=5000,
            topic_data=[
                produce.TopicProduceData(
                    topic_id=each,
                    partition_data=[produce.PartitionProduceData(index=0, records=_batch(False))],
                )
                for each in [*ids, b"unknown topic id"]
            ],
        ),
        13,
    )
    for replica_id in (-1, 1):
        yield (
            "of a follower" if replica_id >= 0 else "",
            fetch.FetchRequest(
                replica_id=replica_id,
                max_wait_ms=0,
                max_bytes=1000,
                session_epoch=-1,
                topics=[
                    fetch.FetchTopic(
                        topic=name, partitions=[fetch.FetchPartition(partition=0, partition_max_bytes=1000)]
                    )
                    for name in named
                ],
            ),
            12,
        )
    yield (
        "by id",
        fetch.FetchRequest(
            max_wait_ms=0,
            max_bytes=1000,
            session_epoch=-1,
            topics=[
                fetch.FetchTopic(
                    topic_id=each, partitions=[fetch.FetchPartition(partition=0, partition_max_bytes=1000)]
                )
                for each in [*ids, b"unknown topic id"]
            ],
        ),
        17,
    )
    yield (
        "",
        fetch.ListOffsetsRequest(
            replica_id=-1,
            topics=[
                fetch.ListOffsetsTopic(
                    name=name, partitions=[fetch.ListOffsetsPartition(partition_index=0, timestamp=-1)]
                )
                for name in named
            ],
            timeout_ms=5000,
        ),
        None,
    )
    yield (
        "named",
        cluster.MetadataRequest(
            topics=[cluster.MetadataRequestTopic(name=name) for name in named],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        ),
        10,
    )
    yield "all", cluster.MetadataRequest(topics=None, include_topic_authorized_operations=True), 12
    yield (
        "by id",
        cluster.MetadataRequest(
            topics=[
                cluster.MetadataRequestTopic(topic_id=each, name=None) for each in [*ids, b"unknown topic id"]
            ],
            allow_auto_topic_creation=False,
        ),
        12,
    )
    yield (
        "",
        offsets.OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,
            topics=[
                offsets.OffsetCommitRequestTopic(
                    name=name,
                    partitions=[offsets.OffsetCommitRequestPartition(partition_index=0, committed_offset=0)],
                )
                for name in named
            ],
        ),
        9,
    )
    yield (
        "of one group",
        offsets.OffsetFetchRequest(
            group_id=group,
            topics=[offsets.OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in named],
        ),
        7,
    )
    yield (
        "of several",
        offsets.OffsetFetchRequest(
            groups=[
                offsets.OffsetFetchRequestGroup(
                    group_id=each,
                    topics=[
                        offsets.OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in named
                    ],
                )
                for each in (group, "other")
            ]
        ),
        9,
    )
    yield "of a group", cluster.FindCoordinatorRequest(key_type=0, coordinator_keys=[group, "other"]), 4
    yield "of a group", cluster.FindCoordinatorRequest(key_type=0, key=group), 2
    yield "of a transactional id", cluster.FindCoordinatorRequest(key_type=1, coordinator_keys=[txn]), 4
    yield (
        "",
        groups.JoinGroupRequest(
            group_id=group, session_timeout_ms=1, rebalance_timeout_ms=1, protocol_type="consumer"
        ),
        None,
    )
    yield "", groups.HeartbeatRequest(group_id=group, generation_id=1, member_id="m"), None
    yield "", groups.LeaveGroupRequest(group_id=group, members=[groups.MemberIdentity(member_id="m")]), None
    yield (
        "",
        groups.SyncGroupRequest(
            group_id=group, generation_id=1, member_id="m", protocol_type="consumer", protocol_name="range"
        ),
        None,
    )
    yield "", groups.DescribeGroupsRequest(groups=[group, "other"], include_authorized_operations=True), 5
    yield "", groups.ListGroupsRequest(), None
    yield (
        "",
        topics.CreateTopicsRequest(
            topics=[
                topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
                for name in [*every, "new-1", "new-2"]
            ],
            timeout_ms=5000,
            validate_only=True,
        ),
        None,
    )
    # Existing topics would be deleted.
    yield (
        "by name",
        topics.DeleteTopicsRequest(
            topics=[topics.DeleteTopicState(name=name) for name in (names.missing, "missing too")],
            timeout_ms=5000,
        ),
        None,
    )
    yield (
        "",
        fetch.DeleteRecordsRequest(
            topics=[
                fetch.DeleteRecordsTopic(
                    name=name, partitions=[fetch.DeleteRecordsPartition(partition_index=0, offset=0)]
                )
                for name in named
            ],
            timeout_ms=5000,
        ),
        None,
    )
    yield (
        "transactional",
        transactions.InitProducerIdRequest(transactional_id=txn, transaction_timeout_ms=-1),
        None,
    )
    yield (
        "idempotent",
        transactions.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000),
        None,
    )
    yield (
        "",
        fetch.OffsetForLeaderEpochRequest(
            replica_id=-2,
            topics=[
                fetch.OffsetForLeaderTopic(
                    topic=name, partitions=[fetch.OffsetForLeaderPartition(partition=0, leader_epoch=0)]
                )
                for name in named
            ],
        ),
        None,
    )
    yield (
        "of a client",
        transactions.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=txn,
            v3_and_below_producer_id=1,
            v3_and_below_topics=[
                transactions.AddPartitionsToTxnTopic(name=name, partitions=[0])
                for name in [*every, "__consumer_offsets"]
            ],
        ),
        3,
    )
    yield (
        "of a broker",
        transactions.AddPartitionsToTxnRequest(
            transactions=[
                transactions.AddPartitionsToTxnTransaction(
                    transactional_id=txn,
                    producer_id=1,
                    verify_only=True,
                    topics=[transactions.AddPartitionsToTxnTopic(name=every[0], partitions=[0])],
                )
            ]
        ),
        4,
    )
    yield "", transactions.AddOffsetsToTxnRequest(transactional_id=txn, producer_id=1, group_id=group), None
    yield "", transactions.EndTxnRequest(transactional_id=txn, producer_id=1, committed=True), None
    yield (
        "",
        transactions.WriteTxnMarkersRequest(
            markers=[
                transactions.WritableTxnMarker(
                    producer_id=1,
                    topics=[transactions.WritableTxnMarkerTopic(name=names.missing, partition_indexes=[0])],
                )
            ]
        ),
        1,
    )
    yield (
        "",
        transactions.TxnOffsetCommitRequest(
            transactional_id=txn,
            group_id=group,
            producer_id=1,
            topics=[
                transactions.TxnOffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        transactions.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=0)
                    ],
                )
                for name in named
            ],
        ),
        3,
    )
    nothing = {"resource_name_filter": "nobody has such", "pattern_type_filter": 3}
    anything = {"resource_type_filter": 2, "operation": 1, "permission_type": 1}
    yield "", acls.DescribeAclsRequest(**nothing, **anything), None
    yield (
        "",
        acls.CreateAclsRequest(
            creations=[
                acls.AclCreation(
                    resource_type=4,
                    resource_name="not the cluster",
                    principal="User:nobody",
                    host="*",
                    operation=3,
                    permission_type=3,
                )
            ]
        ),
        None,
    )
    yield "", acls.DeleteAclsRequest(filters=[acls.DeleteAclsFilter(**nothing, **anything)]), None
    asked = [(2, name) for name in named] + [(4, ""), (32, group), (16, "m")]
    yield (
        "",
        configs.DescribeConfigsRequest(
            resources=[
                configs.DescribeConfigsResource(
                    resource_type=kind, resource_name=name, configuration_keys=["no such key"]
                )
                for kind, name in asked
            ]
        ),
        None,
    )
    alterable = [(2, name) for name in every] + [(4, ""), (32, group)]
    yield (
        "",
        configs.AlterConfigsRequest(
            resources=[
                configs.AlterConfigsResource(resource_type=kind, resource_name=name)
                for kind, name in alterable
            ],
            validate_only=True,
        ),
        None,
    )
    yield (
        "",
        configs.IncrementalAlterConfigsRequest(
            resources=[
                configs.IncrementalConfigsResource(resource_type=kind, resource_name=name)
                for kind, name in alterable
            ],
            validate_only=True,
        ),
        None,
    )
    yield (
        "",
        replicas.AlterReplicaLogDirsRequest(
            dirs=[
                replicas.AlterReplicaLogDir(
                    path="/nowhere", topics=[replicas.AlterReplicaLogDirTopic(name=every[0], partitions=[0])]
                )
            ]
        ),
        None,
    )
    yield "", replicas.DescribeLogDirsRequest(topics=[]), 4
    yield (
        "",
        topics.CreatePartitionsRequest(
            topics=[topics.CreatePartitionsTopic(name=name, count=0, assignments=None) for name in named],
            timeout_ms=5000,
            validate_only=True,
        ),
        None,
    )
    yield (
        "of somebody else",
        delegation_tokens.CreateDelegationTokenRequest(
            owner_principal_type="User", owner_principal_name="cat", max_lifetime_ms=60_000
        ),
        None,
    )
    yield "", groups.DeleteGroupsRequest(groups_names=["no such group", "nor such"]), None
    yield (
        "",
        replicas.ElectLeadersRequest(
            topic_partitions=[replicas.TopicPartitions(topic=names.missing, partitions=[0])], timeout_ms=5000
        ),
        None,
    )
    yield (
        "",
        replicas.AlterPartitionReassignmentsRequest(
            timeout_ms=5000,
            topics=[
                replicas.ReassignableTopic(
                    name=names.missing,
                    partitions=[replicas.ReassignablePartition(partition_index=0, replicas=None)],
                )
            ],
        ),
        None,
    )
    yield (
        "",
        replicas.ListPartitionReassignmentsRequest(
            timeout_ms=5000,
            topics=[replicas.ListPartitionReassignmentsTopics(name=every[0], partition_indexes=[0])],
        ),
        None,
    )
    yield (
        "",
        offsets.OffsetDeleteRequest(
            group_id=group,
            topics=[
                offsets.OffsetDeleteRequestTopic(
                    name=name, partitions=[offsets.OffsetDeleteRequestPartition(partition_index=0)]
                )
                for name in named
            ],
        ),
        None,
    )
    yield "", quotas.DescribeClientQuotasRequest(), None
    yield (
        "",
        quotas.AlterClientQuotasRequest(
            entries=[
                quotas.AlterEntryData(
                    entity=[quotas.EntityData(entity_type="user", entity_name="u")],
                    ops=[quotas.OpData(key="producer_byte_rate", value=1e9)],
                )
            ],
            validate_only=True,
        ),
        None,
    )
    yield "", scram.DescribeUserScramCredentialsRequest(users=[scram.UserName(name="nobody")]), None
    yield (
        "",
        scram.AlterUserScramCredentialsRequest(
            deletions=[scram.ScramCredentialDeletion(name="nobody", mechanism=1)]
        ),
        None,
    )
    yield (
        "",
        cluster.UpdateFeaturesRequest(
            timeout_ms=5000,
            feature_updates=[
                cluster.FeatureUpdateKey(feature="no.such.feature", max_version_level=1, upgrade_type=1)
            ],
            validate_only=True,
        ),
        1,
    )
    yield "", cluster.DescribeClusterRequest(include_cluster_authorized_operations=True), 1
    yield (
        "",
        transactions.DescribeProducersRequest(
            topics=[transactions.TopicRequest(name=name, partition_indexes=[0]) for name in named]
        ),
        None,
    )
    yield (
        "",
        mirror.MirrorAppendRequest(
            link="l",
            topics=[
                mirror.MirrorAppendTopic(name=name, partitions=[mirror.MirrorAppendPartition(index=0)])
                for name in named
            ],
        ),
        None,
    )
    yield "", cluster.UnregisterBrokerRequest(broker_id=77), None
    yield "", transactions.DescribeTransactionsRequest(transactional_ids=[txn, "other"]), None
    yield "", transactions.ListTransactionsRequest(), 0
    for wanted in ([every[0]], every):
        yield (
            f"with {len(wanted)} topics",
            consumer_groups.ConsumerGroupHeartbeatRequest(
                group_id=group,
                member_id="m",
                member_epoch=5,
                subscribed_topic_names=wanted,
                topic_partitions=[],
                rebalance_timeout_ms=1000,
            ),
            0,
        )
        yield (
            f"with {len(wanted)} topics",
            share_groups.ShareGroupHeartbeatRequest(
                group_id=f"{group}-share", member_id="m", member_epoch=5, subscribed_topic_names=wanted
            ),
            None,
        )
    yield "", consumer_groups.ConsumerGroupDescribeRequest(group_ids=[group, "other"]), 0
    yield "", share_groups.ShareGroupDescribeRequest(group_ids=[group, "other"]), None
    yield "", streams_groups.StreamsGroupDescribeRequest(group_ids=[group, "other"]), None
    yield (
        "",
        streams_groups.StreamsGroupTopologyDescriptionUpdateRequest(
            group_id=group,
            member_id="m",
            topology_epoch=1,
            topology_description=streams_groups.TopologyDescription(),
        ),
        None,
    )
    yield "", configs.ListConfigResourcesRequest(), 0
    yield (
        "named",
        cluster.DescribeTopicPartitionsRequest(topics=[cluster.TopicRequest(name=name) for name in named]),
        None,
    )
    yield "all", cluster.DescribeTopicPartitionsRequest(), None
    for call, kind, part in (
        (share_fetch.ShareFetchRequest, share_fetch.FetchTopic, share_fetch.FetchPartition),
        (share_fetch.ShareAcknowledgeRequest, share_fetch.AcknowledgeTopic, share_fetch.AcknowledgePartition),
    ):
        yield (
            "",
            call(
                group_id=f"{group}-share",
                member_id="AAAAAAAAAAAAAAAAAAAAAA",
                share_session_epoch=3,
                topics=[kind(topic_id=each, partitions=[part(partition_index=0)]) for each in ids],
            ),
            1,
        )
    for name, topic, partition in (
        ("InitializeShareGroupState", "InitializeStateData", "InitializeStatePartitionData"),
        ("ReadShareGroupState", "ReadStateData", "ReadStatePartitionData"),
        ("WriteShareGroupState", "WriteStateData", "WriteStatePartitionData"),
        ("DeleteShareGroupState", "DeleteStateData", "DeleteStatePartitionData"),
        ("ReadShareGroupStateSummary", "ReadStateSummaryData", "ReadSummaryPartitionData"),
    ):
        entry = getattr(share_state, partition)(partition=0)
        data = getattr(share_state, topic)(topic_id=ids[0], partitions=[entry])
        # Without a group they are refused before anything is stored.
        yield "", getattr(share_state, f"{name}Request")(group_id="", topics=[data]), 0
    yield (
        "",
        streams_groups.StreamsGroupHeartbeatRequest(
            group_id=f"{group}-streams",
            member_id="m",
            member_epoch=5,
            endpoint_information_epoch=0,
            topology=streams_groups.Topology(
                epoch=0,
                subtopologies=[
                    streams_groups.Subtopology(
                        subtopology_id="0",
                        source_topics=every,
                    )
                ],
            ),
        ),
        None,
    )
    yield (
        "",
        share_groups.DescribeShareGroupOffsetsRequest(
            groups=[
                share_groups.DescribeShareGroupOffsetsRequestGroup(
                    group_id=each,
                    topics=[
                        share_groups.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[0])
                        for name in every
                    ],
                )
                for each in (f"{group}-share", "other")
            ]
        ),
        0,
    )
    yield (
        "",
        share_groups.AlterShareGroupOffsetsRequest(
            group_id=f"{group}-share",
            topics=[
                share_groups.AlterShareGroupOffsetsRequestTopic(
                    topic_name=names.missing,
                    partitions=[share_groups.AlterShareGroupOffsetsRequestPartition(partition_index=0)],
                )
            ],
        ),
        None,
    )
    yield (
        "",
        share_groups.DeleteShareGroupOffsetsRequest(
            group_id=f"{group}-share",
            topics=[share_groups.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in named],
        ),
        None,
    )


# -- the response --------------------------------------------------------------------------------------------

_NAMES = ("name", "topic", "topic_name", "group_id", "key", "resource_name", "user", "transactional_id")
_CODES = ("error_code", "partition_error_code", "topic_config_error_code", "acknowledge_error_code")


def verdicts(response: Response) -> list[tuple[str, str, int]]:
    """Return every error code of a response, with its position and resource; 0 means no refusal.

    Bit fields of operations count too. Sorted, because lists may come in any order, and without internal topics, which
    not every broker has.
    """
    return sorted(each for each in _walk(response, "", "") if "/__" not in each[1])


def _walk(struct: Struct, path: str, about: str) -> Iterator[tuple[str, str, int]]:
    about += "".join(f"/{value}" for field in _NAMES if (value := getattr(struct, field, None)) is not None)
    for field in type(struct).fields:
        value: Any = getattr(struct, field)
        if field in _CODES:
            yield path + field, about, value if value in AUTHORIZATION or value == UNKNOWN_TOPIC_ID else 0
        elif field.endswith("authorized_operations"):
            yield path + field, about, value
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, Struct):
                    yield from _walk(each, f"{path}{field}.", about)


def refusals(response: Response) -> set[int]:
    return {code for path, _, code in verdicts(response) if path.endswith("error_code")} & AUTHORIZATION


__all__ = ["FREE", "SILENT", "Case", "Names", "cases", "refusals", "verdicts"]
