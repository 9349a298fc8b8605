// Copies a topic exactly once, with transactions, until killed.
//
//     java -cp JARS Copier.java HOST:PORT SOURCE TARGET GROUP TRANSACTIONAL_ID

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class Copier {
    private static final Random RANDOM = new Random();

    public static void main(String[] arguments) {
        while (true) {
            try {
                copy(arguments[0], arguments[1], arguments[2], arguments[3], arguments[4]);
            } catch (KafkaException error) {
                // Restart with a new producer from the committed offsets; only time is lost.
            }
        }
    }

    private static void copy(String bootstrap, String source, String target, String group, String id) {
        Properties producing = new Properties();
        producing.put("bootstrap.servers", bootstrap);
        producing.put("transactional.id", id);
        producing.put("transaction.timeout.ms", "10000");
        producing.put("max.block.ms", "20000");
        producing.put("reconnect.backoff.max.ms", "200");
        Properties consuming = new Properties();
        consuming.put("bootstrap.servers", bootstrap);
        consuming.put("group.id", group);
        consuming.put("isolation.level", "read_committed");
        consuming.put("auto.offset.reset", "earliest");
        consuming.put("enable.auto.commit", "false");
        consuming.put("session.timeout.ms", "6000");
        consuming.put("max.poll.records", "200");
        consuming.put("reconnect.backoff.max.ms", "200");
        try (KafkaProducer<byte[], byte[]> producer =
                    new KafkaProducer<>(producing, new ByteArraySerializer(), new ByteArraySerializer());
                KafkaConsumer<byte[], byte[]> consumer =
                    new KafkaConsumer<>(consuming, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            producer.initTransactions();
            consumer.subscribe(List.of(source));
            while (true) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    producer.send(new ProducerRecord<>(target, record.partition(), null, record.value()));
                    positions.put(
                        new TopicPartition(source, record.partition()), new OffsetAndMetadata(record.offset() + 1));
                }
                if (RANDOM.nextInt(10) == 0) {
                    producer.flush(); // consumers must never see aborted records
                    producer.abortTransaction();
                    return;
                }
                try {
                    producer.sendOffsetsToTransaction(positions, consumer.groupMetadata());
                    producer.commitTransaction();
                } catch (KafkaException error) {
                    producer.abortTransaction();
                    throw error;
                }
            }
        }
    }
}
