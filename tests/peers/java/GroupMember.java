// A group member with the Java client, run as a single source file:
//
//     java -cp JARS GroupMember.java consumer|pattern|share HOST:PORT GROUP TOPIC COUNT
//
// Prints "partition value" for each of COUNT records, then commits or acknowledges, closes and ends.

import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.serialization.StringDeserializer;

public class GroupMember {
    public static void main(String[] args) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[1]);
        settings.put("group.id", args[2]);
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        int count = Integer.parseInt(args[4]);
        if (args[0].equals("share")) {
            share(settings, args[3], count);
        } else {
            settings.put("group.protocol", "consumer");
            settings.put("auto.offset.reset", "earliest");
            settings.put("enable.auto.commit", "false");
            consume(settings, args[3], count, args[0].equals("pattern"));
        }
    }

    private static void consume(Properties settings, String topic, int count, boolean isPattern) {
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            if (isPattern) {
                consumer.subscribe(new SubscriptionPattern(topic));
            } else {
                consumer.subscribe(List.of(topic));
            }
            for (int seen = 0; seen < count; ) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    print(record);
                    seen++;
                }
            }
            consumer.commitSync();
        }
    }

    private static void share(Properties settings, String topic, int count) {
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.subscribe(List.of(topic));
            for (int seen = 0; seen < count; ) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    print(record);
                    seen++;
                }
            }
            consumer.commitSync();
        }
    }

    private static void print(ConsumerRecord<String, String> record) {
        System.out.println(record.partition() + " " + record.value());
        System.out.flush();
    }
}
