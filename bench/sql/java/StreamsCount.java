// Counts the events of each user in windows of a minute, exactly once, and prints how fast it was.
//
//     java -cp JARS StreamsCount.java HOST:PORT STATE_DIRECTORY FROM_TOPIC TO_TOPIC EVENTS

import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;

public final class StreamsCount {
    public static void main(String[] arguments) throws Exception {
        long total = Long.parseLong(arguments[4]);
        Properties settings = new Properties();
        settings.put("application.id", "count-" + System.nanoTime());
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("state.dir", arguments[1]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("num.stream.threads", "1");
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        settings.put("consumer.auto.offset.reset", "earliest");

        ObjectMapper json = new ObjectMapper();
        AtomicLong seen = new AtomicLong();
        AtomicLong began = new AtomicLong();
        CountDownLatch done = new CountDownLatch(1);
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[2], Consumed.with(Serdes.String(), Serdes.ByteArray()))
            .map((key, value) -> {
                try {
                    return KeyValue.pair(json.readTree(value).get("WHO").textValue(), "");
                } catch (java.io.IOException error) {
                    throw new RuntimeException(error);
                }
            })
            .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), Duration.ofDays(1)))
            .aggregate(() -> 0L, (who, value, count) -> { // as count(), and tells how far it is
                long number = seen.incrementAndGet();
                if (number == 1) {
                    began.set(System.nanoTime());
                }
                if (number == total) {
                    done.countDown();
                }
                return count + 1;
            }, Materialized.with(Serdes.String(), Serdes.Long()))
            .toStream()
            .mapValues(count -> "{\"N\":" + count + "}")
            .to(arguments[3], Produced.with(
                WindowedSerdes.timeWindowedSerdeFrom(String.class, 60_000), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.start();
        done.await();
        double seconds = (System.nanoTime() - began.get()) / 1e9;
        System.out.println("rows/s " + (total - 1) / seconds);
        streams.close(Duration.ofSeconds(30));
        System.exit(0);
    }
}
