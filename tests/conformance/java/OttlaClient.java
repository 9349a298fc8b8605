// The Java client's agent: commands as JSON lines on stdin, one response line each, like the Python agents.
//
//     java -cp CLASSES:JARS OttlaClient serve HOST:PORT
//     java -cp CLASSES:JARS OttlaClient member HOST:PORT '{"group": ...}'
//     java -cp CLASSES:JARS OttlaClient share-member HOST:PORT '{"group": ...}'

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class OttlaClient {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static final String ASSIGNORS = "org.apache.kafka.clients.consumer.";
    private static final Map<String, String> ASSIGNOR = Map.of(
        "range", ASSIGNORS + "RangeAssignor",
        "roundrobin", ASSIGNORS + "RoundRobinAssignor",
        "sticky", ASSIGNORS + "StickyAssignor",
        "cooperative-sticky", ASSIGNORS + "CooperativeStickyAssignor");

    private String bootstrap;
    private final Properties settings = new Properties();  // login settings
    private final Map<Integer, Consumer<byte[], byte[]>> consumers = new HashMap<>();
    private final Map<Integer, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
    private final ShareGroups shareGroups = new ShareGroups();
    private Admin admin;
    private int lastHandle = 0;

    private OttlaClient(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws Exception {
        // Stdout is for responses only; the client's log goes to stderr.
        System.setOut(System.err);
        OttlaClient client = new OttlaClient(arguments[1]);
        if (arguments[0].equals("serve")) {
            client.serve();
        } else {
            client.beMember(JSON.readTree(arguments[2]), arguments[0].equals("share-member"));
        }
    }

    private void serve() throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            JsonNode command = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.set("result", JSON.valueToTree(call(command.get("op").asText(), command.get("args"))));
            } catch (Throwable error) {
                answer.set("error", describe(error));
            }
            write(answer);
        }
        if (admin != null) {
            admin.close(Duration.ofSeconds(1));
        }
    }

    private static synchronized void write(JsonNode line) {
        OUT.println(line);
        OUT.flush();
    }

    /** Return Kafka's error code, or null for a client-side error. */
    private static ObjectNode describe(Throwable error) {
        if (error instanceof ExecutionException && error.getCause() != null) {
            error = error.getCause();
        }
        ObjectNode described = JSON.createObjectNode();
        Errors code = Errors.forException(error);
        if (error instanceof OffsetOutOfRangeException) {
            described.put("code", Errors.OFFSET_OUT_OF_RANGE.code());
        } else if (code == Errors.UNKNOWN_SERVER_ERROR) {
            described.putNull("code");
        } else {
            described.put("code", code.code());
        }
        StringBuilder message = new StringBuilder(error.toString());
        for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
            message.append("; caused by ").append(cause);
        }
        return described.put("message", message.toString());
    }

    private Object call(String operation, JsonNode arguments) throws Exception {
        if (operation.contains("share_")) {
            return shareGroups.call(operation, arguments, common(), admin());
        }
        switch (operation) {
            case "log_in":
                logIn(arguments);
                return null;
            case "produce": return produce(arguments);
            case "open_producer": return openProducer();
            case "send": return send(arguments);
            case "close_producer":
                producers.remove(arguments.get("handle").asInt()).close(Duration.ofSeconds(1));
                return null;
            case "begin_producer": return beginProducer(text(arguments, "transactional_id"));
            case "transact":
                transact(arguments);
                return null;
            case "finish":
                finish(arguments.get("handle").asInt(), arguments.get("commit").asBoolean());
                return null;
            case "open": return open(arguments);
            case "poll": return poll(arguments);
            case "position": return consumer(arguments).position(partition(arguments), Duration.ofSeconds(10));
            case "seek":
                consumer(arguments).seek(partition(arguments), arguments.get("offset").asLong());
                return null;
            case "close":
                consumers.remove(arguments.get("handle").asInt()).close();
                return null;
            case "partitions_for": return partitionsFor(text(arguments, "topic"));
            case "offsets_for_time": return offsetsForTime(arguments);
            case "watermarks":
                return List.of(
                    listOffset(partition(arguments), OffsetSpec.earliest()),
                    listOffset(partition(arguments), OffsetSpec.latest()));
            case "list_offsets": return listOffset(partition(arguments), spec(text(arguments, "spec")));
            case "commit": return commit(arguments);
            case "committed": return committed(arguments);
            case "create_topic": return createTopic(arguments);
            case "delete_topic": return get(admin().deleteTopics(List.of(text(arguments, "name"))).all());
            case "create_partitions":
                return get(admin().createPartitions(Map.of(
                    text(arguments, "name"), NewPartitions.increaseTo(arguments.get("total").asInt()))).all());
            case "list_topics": return new TreeSet<>(get(admin().listTopics().names()));
            case "describe_topic": return describeTopic(text(arguments, "name"));
            case "describe_configs": return describeConfigs(resource(arguments));
            case "incremental_alter_configs": return incrementalAlterConfigs(arguments);
            case "list_groups":
                return get(admin().listGroups().all()).stream().map(group -> group.groupId()).toList();
            case "describe_group": return describeGroup(text(arguments, "group"));
            case "delete_group":
                return get(admin().deleteConsumerGroups(List.of(text(arguments, "group"))).all());
            case "group_offsets": return groupOffsets(text(arguments, "group"));
            case "alter_group_offsets":
                return get(admin().alterConsumerGroupOffsets(text(arguments, "group"), offsets(arguments)).all());
            case "delete_group_offsets": return deleteGroupOffsets(arguments);
            case "delete_records": return deleteRecords(arguments);
            case "describe_cluster": return describeCluster();
            case "log_dirs": return logDirs(text(arguments, "topic"));
            case "describe_producers": return describeProducers(partition(arguments));
            default: throw new IllegalArgumentException("no operation " + operation);
        }
    }

    /** Connect all later clients there, with these settings. */
    private void logIn(JsonNode arguments) {
        bootstrap = text(arguments, "bootstrap");
        settings.clear();
        arguments.get("settings").properties().forEach(e -> settings.put(e.getKey(), e.getValue().asText()));
        if (admin != null) {
            admin.close(Duration.ofSeconds(1));
            admin = null;
        }
    }

    // Produce and consume

    private Object produce(JsonNode arguments) throws Exception {
        Properties config = common();
        config.put("compression.type", text(arguments, "codec"));
        config.put("acks", text(arguments, "acks"));
        config.put("enable.idempotence", arguments.get("idempotent").asText());
        config.put("linger.ms", "5");
        config.put("max.request.size", "8000000");
        config.put("request.timeout.ms", "15000");
        config.put("delivery.timeout.ms", "20000");
        config.put("max.block.ms", "15000");
        String topic = text(arguments, "topic");
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode record : arguments.get("records")) {
                List<Header> headers = new ArrayList<>();
                for (JsonNode header : record.get("headers")) {
                    headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
                }
                Integer partition = record.get("partition").isNull() ? null : record.get("partition").asInt();
                Long timestamp = record.get("timestamp").isNull() ? null : record.get("timestamp").asLong();
                sent.add(producer.send(new ProducerRecord<>(
                    topic, partition, timestamp, bytes(record.get("key")), bytes(record.get("value")), headers)));
            }
            producer.flush();
            ArrayNode deliveries = JSON.createArrayNode();
            for (Future<RecordMetadata> future : sent) {
                deliveries.add(delivery(future));
            }
            return deliveries;
        }
    }

    private Object openProducer() {
        Properties config = common();
        config.put("enable.idempotence", "false");
        config.put("linger.ms", "0");
        config.put("request.timeout.ms", "15000");
        config.put("delivery.timeout.ms", "20000");
        config.put("max.block.ms", "15000");
        producers.put(++lastHandle, new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer()));
        return lastHandle;
    }

    private Object send(JsonNode arguments) throws Exception {
        byte[] value = text(arguments, "value").getBytes(StandardCharsets.UTF_8);
        return delivery(producers.get(arguments.get("handle").asInt())
            .send(new ProducerRecord<>(text(arguments, "topic"), 0, null, value)));
    }

    private Object beginProducer(String transactionalId) {
        Properties config = common();
        config.put("transactional.id", transactionalId);
        config.put("max.block.ms", "15000");
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        lastHandle++;
        producers.put(lastHandle, producer);
        return lastHandle;
    }

    private void transact(JsonNode arguments) throws Exception {
        int handle = arguments.get("handle").asInt();
        KafkaProducer<byte[], byte[]> producer = producers.get(handle);
        String topic = text(arguments, "topic");
        producer.beginTransaction();
        for (JsonNode value : arguments.get("values")) {
            byte[] bytes = value.asText().getBytes(StandardCharsets.UTF_8);
            producer.send(new ProducerRecord<>(topic, 0, null, bytes));
        }
        if (!arguments.get("group").isNull()) {
            producer.sendOffsetsToTransaction(
                Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(arguments.get("offset").asLong())),
                new ConsumerGroupMetadata(text(arguments, "group")));
        }
        producer.flush();
        String outcome = text(arguments, "outcome");
        if (!outcome.equals("open")) {
            finish(handle, outcome.equals("commit"));
        }
    }

    private void finish(int handle, boolean commit) {
        if (commit) {
            producers.get(handle).commitTransaction();
        } else {
            producers.get(handle).abortTransaction();
        }
    }

    private static ObjectNode delivery(Future<RecordMetadata> future) throws InterruptedException {
        ObjectNode delivery = JSON.createObjectNode();
        try {
            RecordMetadata done = future.get();
            delivery.put("partition", done.partition());
            delivery.put("offset", done.hasOffset() ? done.offset() : null);
            delivery.putNull("error").put("message", "");
        } catch (ExecutionException error) {
            ObjectNode described = describe(error);
            delivery.putNull("partition").putNull("offset").put("message", described.get("message").asText());
            delivery.set("error", described.get("code"));
        }
        return delivery;
    }

    private Object open(JsonNode arguments) {
        Properties config = consumerConfig(arguments.get("group").isNull() ? null : text(arguments, "group"));
        config.put("auto.offset.reset", text(arguments, "reset"));
        config.put("isolation.level", text(arguments, "isolation"));
        config.put("allow.auto.create.topics", arguments.get("auto_create").asText());
        Consumer<byte[], byte[]> consumer = consumer(config);
        List<TopicPartition> partitions = partitions(arguments);
        consumer.assign(partitions);
        JsonNode start = arguments.get("start");
        if (start.isNumber()) {
            partitions.forEach(partition -> consumer.seek(partition, start.asLong()));
        } else if (start.asText().equals("earliest")) {
            consumer.seekToBeginning(partitions);
        } else {
            consumer.seekToEnd(partitions);
        }
        consumers.put(++lastHandle, consumer);
        return lastHandle;
    }

    private Object poll(JsonNode arguments) {
        Consumer<byte[], byte[]> consumer = consumer(arguments);
        int wanted = arguments.get("n").asInt();
        long deadline = System.nanoTime() + (long) (arguments.get("timeout").asDouble() * 1e9);
        ArrayNode records = JSON.createArrayNode();
        while (records.size() < wanted && System.nanoTime() < deadline) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                if (records.size() < wanted) {
                    records.add(toJson(record));
                } else {
                    // Not requested yet: reset the position to the first of them.
                    TopicPartition partition = new TopicPartition(record.topic(), record.partition());
                    consumer.seek(partition, Math.min(record.offset(), consumer.position(partition)));
                }
            }
        }
        return records;
    }

    private Object partitionsFor(String topic) {
        Properties config = consumerConfig(null);
        config.put("allow.auto.create.topics", "false");
        try (Consumer<byte[], byte[]> consumer = consumer(config)) {
            List<PartitionInfo> found = consumer.partitionsFor(topic, Duration.ofSeconds(10));
            return found == null ? List.of() : found.stream().map(PartitionInfo::partition).sorted().toList();
        }
    }

    private Object offsetsForTime(JsonNode arguments) {
        TopicPartition partition = partition(arguments);
        try (Consumer<byte[], byte[]> consumer = consumer(consumerConfig(null))) {
            OffsetAndTimestamp found =
                consumer.offsetsForTimes(Map.of(partition, arguments.get("timestamp").asLong())).get(partition);
            return found == null ? null : found.offset();
        }
    }

    private Object commit(JsonNode arguments) {
        try (Consumer<byte[], byte[]> consumer = consumer(consumerConfig(text(arguments, "group")))) {
            consumer.commitSync(offsets(arguments));
        }
        return null;
    }

    private Object committed(JsonNode arguments) {
        try (Consumer<byte[], byte[]> consumer = consumer(consumerConfig(text(arguments, "group")))) {
            List<TopicPartition> partitions = partitions(arguments);
            Map<TopicPartition, OffsetAndMetadata> found = consumer.committed(new HashSet<>(partitions));
            List<Long> answer = new ArrayList<>();
            for (TopicPartition partition : partitions) {
                answer.add(found.get(partition) == null ? null : found.get(partition).offset());
            }
            return answer;
        }
    }

    // Administration

    private Object createTopic(JsonNode arguments) throws Exception {
        int partitions = arguments.get("partitions").asInt();
        short replication = (short) arguments.get("replication").asInt();
        NewTopic topic = new NewTopic(
            text(arguments, "name"),
            partitions == -1 ? Optional.empty() : Optional.of(partitions),
            replication == -1 ? Optional.empty() : Optional.of(replication));
        Map<String, String> configs = new HashMap<>();
        arguments.get("configs").properties().forEach(e -> configs.put(e.getKey(), e.getValue().asText()));
        CreateTopicsOptions options = new CreateTopicsOptions();
        options.validateOnly(arguments.get("validate_only").asBoolean());
        return get(admin().createTopics(List.of(topic.configs(configs)), options).all());
    }

    private Object describeTopic(String name) throws Exception {
        TopicDescription topic = get(admin().describeTopics(List.of(name)).allTopicNames()).get(name);
        ArrayNode partitions = JSON.createArrayNode();
        for (TopicPartitionInfo partition : topic.partitions()) {
            ObjectNode described = partitions.addObject();
            described.put("partition", partition.partition());
            described.put("leader", partition.leader() == null ? -1 : partition.leader().id());
            described.set("replicas", JSON.valueToTree(partition.replicas().stream().map(Node::id).toList()));
            described.set("isr", JSON.valueToTree(partition.isr().stream().map(Node::id).toList()));
        }
        return Map.of("id", topic.topicId().toString(), "partitions", partitions);
    }

    private Object describeConfigs(ConfigResource resource) throws Exception {
        Config config = get(admin().describeConfigs(List.of(resource)).all()).get(resource);
        ObjectNode described = JSON.createObjectNode();
        for (ConfigEntry entry : config.entries()) {
            described.putObject(entry.name())
                .put("value", entry.value())
                .put("default", entry.source() == ConfigEntry.ConfigSource.DEFAULT_CONFIG)
                .put("read_only", entry.isReadOnly())
                .put("sensitive", entry.isSensitive());
        }
        return described;
    }

    private Object incrementalAlterConfigs(JsonNode arguments) throws Exception {
        Collection<AlterConfigOp> changes = new ArrayList<>();
        for (JsonNode change : arguments.get("changes")) {
            String value = change.get(2).isNull() ? null : change.get(2).asText();
            changes.add(new AlterConfigOp(
                new ConfigEntry(change.get(1).asText(), value),
                AlterConfigOp.OpType.valueOf(change.get(0).asText())));
        }
        return get(admin().incrementalAlterConfigs(Map.of(resource(arguments), changes)).all());
    }

    private Object describeGroup(String group) throws Exception {
        ConsumerGroupDescription found = get(admin().describeConsumerGroups(List.of(group)).all()).get(group);
        ObjectNode described = JSON.createObjectNode();
        described.put("state", found.groupState().toString());
        described.put("assignor", found.partitionAssignor());
        ArrayNode members = described.putArray("members");
        for (MemberDescription member : found.members()) {
            ObjectNode one = members.addObject();
            one.put("id", member.consumerId());
            one.put("instance", member.groupInstanceId().orElse(null));
            one.set("partitions", toJson(member.assignment().topicPartitions()));
        }
        return described;
    }

    private Object groupOffsets(String group) throws Exception {
        Map<String, Object> sorted = new TreeMap<>();
        get(admin().listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).forEach((partition, offset) ->
            sorted.put(partition.topic() + "-" + String.format("%05d", partition.partition()),
                List.of(partition.topic(), partition.partition(), offset.offset())));
        return sorted.values();
    }

    private Object deleteGroupOffsets(JsonNode arguments) throws Exception {
        Set<TopicPartition> partitions = new HashSet<>(partitions(arguments));
        return get(admin().deleteConsumerGroupOffsets(text(arguments, "group"), partitions).all());
    }

    private Object deleteRecords(JsonNode arguments) throws Exception {
        TopicPartition partition = partition(arguments);
        RecordsToDelete before = RecordsToDelete.beforeOffset(arguments.get("before").asLong());
        return get(admin().deleteRecords(Map.of(partition, before)).lowWatermarks().get(partition)).lowWatermark();
    }

    private Object describeCluster() throws Exception {
        var cluster = admin().describeCluster();
        ArrayNode brokers = JSON.createArrayNode();
        for (Node node : get(cluster.nodes())) {
            brokers.addArray().add(node.id()).add(node.host()).add(node.port());
        }
        return Map.of(
            "id", get(cluster.clusterId()), "controller", get(cluster.controller()).id(), "brokers", brokers);
    }

    private Object logDirs(String topic) throws Exception {
        List<Integer> brokers = get(admin().describeCluster().nodes()).stream().map(Node::id).toList();
        ArrayNode directories = JSON.createArrayNode();
        for (Map<String, LogDirDescription> ofBroker : get(admin().describeLogDirs(brokers).allDescriptions()).values()) {
            ofBroker.forEach((path, directory) -> {
                ObjectNode described = directories.addObject().put("path", path);
                described.put("error", directory.error() == null ? 0 : Errors.forException(directory.error()).code());
                ArrayNode partitions = described.putArray("partitions");
                directory.replicaInfos().forEach((partition, replica) -> {
                    if (partition.topic().equals(topic)) {
                        partitions.addArray().add(partition.partition()).add(replica.size());
                    }
                });
            });
        }
        return directories;
    }

    private Object describeProducers(TopicPartition partition) throws Exception {
        ArrayNode producers = JSON.createArrayNode();
        var found = get(admin().describeProducers(List.of(partition)).partitionResult(partition));
        for (ProducerState producer : found.activeProducers()) {
            producers.addObject()
                .put("id", producer.producerId())
                .put("epoch", producer.producerEpoch())
                .put("last_sequence", producer.lastSequence());
        }
        return producers;
    }

    // A group member

    private void beMember(JsonNode options, boolean ofShareGroup) throws Exception {
        AtomicBoolean stopping = new AtomicBoolean();
        Thread watcher = new Thread(() -> {
            try {
                System.in.readAllBytes();
            } catch (java.io.IOException error) {
                // A broken pipe means that the parent has ended, too.
            }
            stopping.set(true);
        });
        watcher.setDaemon(true);
        watcher.start();
        try {
            if (ofShareGroup) {
                ShareGroups.beMember(common(), options, stopping);
            } else {
                try (Consumer<byte[], byte[]> consumer = consumer(memberConfig(options))) {
                    runMember(consumer, options, stopping);
                }
            }
        } catch (Exception error) {
            ObjectNode failed = describe(error);
            write(failed.put("event", "failed"));
            throw error;
        }
        write(JSON.createObjectNode().put("event", "stopped"));
    }

    private Properties memberConfig(JsonNode options) {
        Properties config = consumerConfig(text(options, "group"));
        config.put("auto.offset.reset", "earliest");
        String assignor = text(options, "assignor");
        if (assignor.startsWith("broker:")) {
            config.put("group.protocol", "consumer");
            config.put("group.remote.assignor", assignor.substring("broker:".length()));
        } else {
            config.put("partition.assignment.strategy", ASSIGNOR.get(assignor));
            config.put("session.timeout.ms", options.get("session_timeout_ms").asText());
            config.put("heartbeat.interval.ms", options.get("heartbeat_interval_ms").asText());
        }
        if (!options.get("instance").isNull()) {
            config.put("group.instance.id", text(options, "instance"));
        }
        return config;
    }

    private void runMember(Consumer<byte[], byte[]> consumer, JsonNode options, AtomicBoolean stopping) {
        ConsumerRebalanceListener listener = new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                event("assigned", "partitions", toJson(partitions));
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                event("revoked", "partitions", toJson(partitions));
            }
        };
        String topic = text(options, "topic");
        if (topic.startsWith("^")) {
            consumer.subscribe(new SubscriptionPattern(topic), listener);
        } else {
            consumer.subscribe(List.of(topic), listener);
        }
        long left = options.get("limit").isNull() ? Long.MAX_VALUE : options.get("limit").asLong();
        Set<TopicPartition> assignment = null;
        while (!stopping.get() && left > 0) {
            ConsumerRecords<byte[], byte[]> polled = consumer.poll(Duration.ofMillis(100));
            if (!consumer.assignment().equals(assignment)) {
                assignment = new HashSet<>(consumer.assignment());
                event("assignment", "partitions", toJson(assignment));
            }
            ArrayNode records = JSON.createArrayNode();
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (ConsumerRecord<byte[], byte[]> record : polled) {
                if (left > 0) {
                    left--;
                    records.add(toJson(record));
                    offsets.put(
                        new TopicPartition(record.topic(), record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
                }
            }
            if (records.isEmpty()) {
                continue;
            }
            event("records", "records", records);
            if (options.get("commit").asBoolean()) {
                try {
                    consumer.commitSync(offsets);
                } catch (CommitFailedException | RebalanceInProgressException error) {
                    // A rebalance overtook the commit; the partition's new owner reads the records again.
                    continue;
                }
                ArrayNode committed = JSON.createArrayNode();
                offsets.forEach((partition, offset) ->
                    committed.addArray().add(partition.partition()).add(offset.offset()));
                event("committed", "offsets", committed);
            }
        }
    }

    static void event(String kind, String name, JsonNode details) {
        ObjectNode event = JSON.createObjectNode().put("event", kind);
        event.set(name, details);
        write(event);
    }

    // Protocol terms

    private Admin admin() {
        if (admin == null) {
            Properties config = common();
            config.put("request.timeout.ms", "10000");
            config.put("default.api.timeout.ms", "15000");
            admin = Admin.create(config);
        }
        return admin;
    }

    private Properties common() {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("enable.metrics.push", "false");
        config.putAll(settings);
        return config;
    }

    private Properties consumerConfig(String group) {
        Properties config = common();
        config.put("group.id", group == null ? "unused-" + UUID.randomUUID() : group);
        config.put("enable.auto.commit", "false");
        config.put("fetch.max.wait.ms", "100");
        return config;
    }

    private static Consumer<byte[], byte[]> consumer(Properties config) {
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private Consumer<byte[], byte[]> consumer(JsonNode arguments) {
        return consumers.get(arguments.get("handle").asInt());
    }

    private long listOffset(TopicPartition partition, OffsetSpec spec) throws Exception {
        return get(admin().listOffsets(Map.of(partition, spec)).partitionResult(partition)).offset();
    }

    private static OffsetSpec spec(String name) {
        switch (name) {
            case "earliest": return OffsetSpec.earliest();
            case "latest": return OffsetSpec.latest();
            default: return OffsetSpec.maxTimestamp();
        }
    }

    private static <T> T get(Future<T> future) throws Exception {
        return future.get(20, TimeUnit.SECONDS);
    }

    private static String text(JsonNode arguments, String name) {
        return arguments.get(name).asText();
    }

    private static TopicPartition partition(JsonNode arguments) {
        return new TopicPartition(text(arguments, "topic"), arguments.get("partition").asInt());
    }

    private static List<TopicPartition> partitions(JsonNode arguments) {
        List<TopicPartition> partitions = new ArrayList<>();
        for (JsonNode partition : arguments.get("partitions")) {
            partitions.add(new TopicPartition(text(arguments, "topic"), partition.asInt()));
        }
        return partitions;
    }

    private static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode arguments) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (JsonNode pair : arguments.get("offsets")) {
            offsets.put(
                new TopicPartition(text(arguments, "topic"), pair.get(0).asInt()),
                new OffsetAndMetadata(pair.get(1).asLong()));
        }
        return offsets;
    }

    private static ConfigResource resource(JsonNode arguments) {
        String kind = text(arguments, "kind").toUpperCase(java.util.Locale.ROOT);
        return new ConfigResource(ConfigResource.Type.valueOf(kind), text(arguments, "name"));
    }

    static ArrayNode toJson(Collection<TopicPartition> partitions) {
        ArrayNode found = JSON.createArrayNode();
        partitions.forEach(partition -> found.addArray().add(partition.topic()).add(partition.partition()));
        return found;
    }

    static ObjectNode toJson(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode found = JSON.createObjectNode();
        found.put("key", encode(record.key())).put("value", encode(record.value()));
        found.put("partition", record.partition()).put("offset", record.offset());
        found.put("timestamp", record.timestamp());
        ArrayNode headers = found.putArray("headers");
        record.headers().forEach(header -> headers.addArray().add(header.key()).add(encode(header.value())));
        return found;
    }

    private static String encode(byte[] data) {
        return data == null ? null : Base64.getEncoder().encodeToString(data);
    }

    private static byte[] bytes(JsonNode encoded) {
        return encoded.isNull() ? null : Base64.getDecoder().decode(encoded.asText());
    }
}
