"""Queries of existing dashboards, and the reasons why some of them return no data here.

Strimzi's dashboards select by Kubernetes labels, which `config/metrics/prometheus.yml` sets. `$…` is a dashboard
variable.
"""

from __future__ import annotations

_JVM = "no JVM: see process_resident_memory_bytes and process_cpu_seconds_total"
_KUBERNETES = "of Kubernetes, not of the broker"
_CLUSTER = 'namespace="default",strimzi_io_cluster="ottla"'
_POD = f'{_CLUSTER},kubernetes_pod_name=~"ottla-.*"'
_OF_TOPIC = f'{_POD},topic=~".+",topic!=""'
_TOPICS = "kafka_server_brokertopicmetrics"
_CONTAINER = 'namespace="default",kubernetes_pod_name=~"ottla-.*",container="kafka"'

# Title, query, and the reason if the query returns no data.
STRIMZI_KAFKA = [
    ("Brokers Online", f"count(kafka_server_replicamanager_leadercount{{{_CLUSTER}}})", None),
    ("Active Controllers", f"sum(kafka_controller_kafkacontroller_activecontrollercount{{{_CLUSTER}}})", None),
    ("Unclean Leader Election Rate", f"sum(irate(kafka_controller_controllerstats_uncleanleaderelections_total{{{_CLUSTER}}}[5m]))", None),
    ("Online Replicas", f"sum(kafka_server_replicamanager_partitioncount{{{_CLUSTER}}})", None),
    ("Under Replicated Partitions", f"sum(kafka_server_replicamanager_underreplicatedpartitions{{{_CLUSTER}}})", None),
    ("Partitions at minimum ISR", f"sum(kafka_cluster_partition_atminisr{{{_CLUSTER}}})", None),
    ("Partitions under minimum ISR", f"sum(kafka_cluster_partition_underminisr{{{_CLUSTER}}})", None),
    ("Offline Partitions", f"sum(kafka_controller_kafkacontroller_offlinepartitionscount{{{_CLUSTER}}})", None),
    ("Memory Usage", f"sum(container_memory_usage_bytes{{{_CONTAINER}}})", _KUBERNETES),
    ("CPU Usage", f"sum(rate(container_cpu_usage_seconds_total{{{_CONTAINER}}}[5m]))", _KUBERNETES),
    ("Available Disk Space", 'kubelet_volume_stats_available_bytes{namespace="default"}', _KUBERNETES),
    ("Open File Descriptors", f"sum(process_open_fds{{{_CONTAINER}}}) by (kubernetes_pod_name)", None),
    ("JVM Memory Used", f"sum(jvm_memory_bytes_used{{{_POD}}}) by (kubernetes_pod_name)", _JVM),
    ("JVM GC Time", f"sum(rate(jvm_gc_collection_seconds_sum{{{_POD}}}[5m])) by (kubernetes_pod_name)", _JVM),
    ("JVM GC Count", f"sum(rate(jvm_gc_collection_seconds_count{{{_POD}}}[5m])) by (kubernetes_pod_name)", _JVM),
    ("JVM Thread Count", f"sum(jvm_threads_current{{{_POD}}}) by (kubernetes_pod_name)", _JVM),
    ("Total Incoming Byte Rate", f"sum(irate({_TOPICS}_bytesin_total{{{_OF_TOPIC}}}[1m]))", None),
    ("Total Outgoing Byte Rate", f"sum(irate({_TOPICS}_bytesout_total{{{_OF_TOPIC}}}[1m]))", None),
    ("Incoming Messages Rate", f"sum(irate({_TOPICS}_messagesin_total{{{_OF_TOPIC}}}[1m]))", None),
    ("Total Produce Request Rate", f"sum(irate({_TOPICS}_totalproducerequests_total{{{_OF_TOPIC}}}[1m]))", None),
    ("Failed Produce Request Rate", f"sum(irate({_TOPICS}_failedproducerequests_total{{{_OF_TOPIC}}}[1m]))", None),
    ("Fetch Request Rate", f"sum(irate({_TOPICS}_totalfetchrequests_total{{{_OF_TOPIC}}}[1m]))", None),
    ("Failed Fetch Request Rate", f"sum(irate({_TOPICS}_failedfetchrequests_total{{{_OF_TOPIC}}}[1m]))", None),
    ("Network Processor Avg Idle", f"sum(kafka_network_socketserver_networkprocessoravgidle_percent{{{_POD}}}*100) by (kubernetes_pod_name)", None),
    ("Request Handler Avg Idle", f"sum(kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent{{{_POD}}}*100) by (kubernetes_pod_name)", None),
    ("Disk Writes", f"sum(irate(kafka_server_kafkaserver_linux_disk_write_bytes{{{_POD}}}[1m])) by (kubernetes_pod_name)", None),
    ("Disk Reads", f"sum(irate(kafka_server_kafkaserver_linux_disk_read_bytes{{{_POD}}}[1m])) by (kubernetes_pod_name)", None),
    ("Connection Count per Listener", f"sum(kafka_server_socket_server_metrics_connection_count{{{_POD}}}) by (kubernetes_pod_name, listener)", None),
    ("Log Size", f'kafka_log_log_size{{{_POD},topic=~".+",partition=~".*"}}', None),
]  # fmt: skip

# Strimzi's exporter dashboard queries the same names.
GRAFANA_7589 = [
    ("Message in per second", 'sum(rate(kafka_topic_partition_current_offset{topic=~".+"}[1m])) by (topic)', None),
    ("Lag by Consumer Group", 'sum(kafka_consumergroup_lag{topic=~".+"}) by (consumergroup, topic)', None),
    ("Message in per minute", 'sum(delta(kafka_topic_partition_current_offset{topic=~".+"}[5m])/5) by (topic)', None),
    ("Message consume per minute", 'sum(delta(kafka_consumergroup_current_offset{topic=~".+"}[5m])/5) by (consumergroup, topic)', None),
    ("Partitions per Topic", 'sum by (topic) (kafka_topic_partitions{topic=~".+"})', None),
    ("Brokers Online", "kafka_brokers", None),
    ("Topics", "count(kafka_topic_partitions)", None),
    ("Partitions", "sum(kafka_topic_partitions)", None),
    ("Replicas", "sum(kafka_topic_partition_replicas)", None),
    ("In-Sync Replicas", "sum(kafka_topic_partition_in_sync_replica)", None),
    ("Under Replicated Partitions", "sum(kafka_topic_partition_under_replicated_partition)", None),
    ("Partitions not on preferred node", "sum(kafka_topic_partition_leader_is_preferred < bool 1)", None),
    ("Partitions without leader", "sum(kafka_topic_partition_leader < bool 0)", None),
    ("Consumer group members", "sum(kafka_consumergroup_members) by (consumergroup)", None),
    ("Consumer group offsets", "sum(kafka_consumergroup_current_offset_sum) by (consumergroup)", None),
]  # fmt: skip

# Request timings from the rules and panels of the usual JMX exporter
REQUEST_TIMES = [
    (f"{phase} of {request}", f'kafka_network_requestmetrics_{phase}{{request="{request}",quantile="0.99"}}', None)
    for phase in ("totaltimems", "requestqueuetimems", "localtimems", "remotetimems", "responsequeuetimems", "responsesendtimems")
    for request in ("Produce", "FetchConsumer")
]  # fmt: skip
