// The share group commands of the Java client's agent.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.admin.ShareMemberDescription;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

final class ShareGroups {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** A consumer and its last records by offset, because the client acknowledges only whole records. */
    private record Open(
        KafkaShareConsumer<byte[], byte[]> consumer, Map<Long, ConsumerRecord<byte[], byte[]>> held) {}

    private final Map<Integer, Open> consumers = new HashMap<>();
    private int lastHandle = 0;

    Object call(String operation, JsonNode arguments, Properties common, Admin admin) throws Exception {
        String group = arguments.path("group").asText();
        switch (operation) {
            case "share_open":
                boolean explicit = arguments.get("explicit").asBoolean();
                consumers.put(++lastHandle, new Open(open(common, arguments, explicit), new HashMap<>()));
                return lastHandle;
            case "share_poll": 
                Open asked = consumer(arguments);
                asked.held().clear();
                return poll(asked, arguments.get("timeout").asDouble());
            case "share_acknowledge":
                acknowledge(consumer(arguments), arguments.get("fates"));
                return null;
            case "share_close":
                consumers.remove(arguments.get("handle").asInt()).consumer().close();
                return null;
            case "list_share_groups":
                return get(admin.listGroups(ListGroupsOptions.forShareGroups()).all())
                    .stream().map(found -> found.groupId()).toList();
            case "describe_share_group": return describe(get(admin.describeShareGroups(List.of(group)).all()).get(group));
            case "share_group_offsets": return offsets(admin, group);
            case "alter_share_group_offsets":
                Map<TopicPartition, Long> wanted = new HashMap<>();
                for (JsonNode pair : arguments.get("offsets")) {
                    wanted.put(
                        new TopicPartition(arguments.get("topic").asText(), pair.get(0).asInt()), pair.get(1).asLong());
                }
                return get(admin.alterShareGroupOffsets(group, wanted).all());
            case "delete_share_group_offsets":
                return get(admin.deleteShareGroupOffsets(group, Set.of(arguments.get("topic").asText())).all());
            case "delete_share_group": return get(admin.deleteShareGroups(List.of(group)).all());
            default: throw new IllegalArgumentException("no operation " + operation);
        }
    }

    /** Accept records with the next poll, or poll once and keep the records locked. */
    static void beMember(Properties common, JsonNode options, AtomicBoolean stopping) throws InterruptedException {
        boolean accept = options.get("accept").asBoolean();
        try (KafkaShareConsumer<byte[], byte[]> consumer = open(common, options, !accept)) {
            Open member = new Open(consumer, new HashMap<>());
            ArrayNode found = JSON.createArrayNode();
            while (!stopping.get() && (accept || found.isEmpty())) {
                found = poll(member, 0.1);
                if (!found.isEmpty()) {
                    OttlaClient.event("records", "records", found);
                }
            }
            while (!stopping.get()) {
                Thread.sleep(20);
            }
        }
    }

    private static KafkaShareConsumer<byte[], byte[]> open(Properties common, JsonNode arguments, boolean explicit) {
        Properties config = new Properties();
        config.putAll(common);
        config.put("group.id", arguments.get("group").asText());
        config.put("share.acknowledgement.mode", explicit ? "explicit" : "implicit");
        KafkaShareConsumer<byte[], byte[]> consumer =
            new KafkaShareConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(arguments.get("topic").asText()));
        return consumer;
    }

    private static ArrayNode poll(Open open, double timeout) {
        long deadline = System.nanoTime() + (long) (timeout * 1e9);
        ArrayNode records = JSON.createArrayNode();
        do {
            for (ConsumerRecord<byte[], byte[]> record : open.consumer().poll(Duration.ofMillis(100))) {
                open.held().put(record.offset(), record);
                ObjectNode found = OttlaClient.toJson(record);
                records.add(found.put("delivery_count", record.deliveryCount().orElseThrow()));
            }
        } while (records.isEmpty() && System.nanoTime() < deadline);
        return records;
    }

    private static void acknowledge(Open open, JsonNode fates) {
        for (JsonNode fate : fates) {
            open.consumer().acknowledge(
                open.held().get(fate.get(0).asLong()),
                AcknowledgeType.valueOf(fate.get(1).asText().toUpperCase(Locale.ROOT)));
        }
        for (Optional<KafkaException> failure : open.consumer().commitSync(Duration.ofSeconds(20)).values()) {
            if (failure.isPresent()) {
                throw failure.get();
            }
        }
    }

    private static ObjectNode describe(ShareGroupDescription group) {
        ObjectNode described = JSON.createObjectNode().put("state", group.groupState().toString());
        ArrayNode members = described.putArray("members");
        for (ShareMemberDescription member : group.members()) {
            ObjectNode one = members.addObject().put("id", member.consumerId());
            one.set("partitions", OttlaClient.toJson(member.assignment().topicPartitions()));
        }
        return described;
    }

    /** Return topic, partition, start offset and lag of every partition with group state. */
    private static ArrayNode offsets(Admin admin, String group) throws Exception {
        ArrayNode found = JSON.createArrayNode();
        var result = admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec()));
        get(result.partitionsToOffsetInfo(group)).forEach((partition, info) -> {
            ArrayNode one = found.addArray().add(partition.topic()).add(partition.partition());
            one.add(info == null ? null : info.startOffset());
            one.add(info == null ? null : info.lag().orElse(null));
        });
        return found;
    }

    private Open consumer(JsonNode arguments) {
        return consumers.get(arguments.get("handle").asInt());
    }

    private static <T> T get(KafkaFuture<T> future) throws Exception {
        return future.get(20, TimeUnit.SECONDS);
    }
}
