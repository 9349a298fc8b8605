// Counts words and joins orders with customers, exactly once, until killed.
//
//     java -cp JARS StreamsApp.java HOST:PORT STATE_DIRECTORY [GUARANTEE [GROUP_PROTOCOL]]
//
// For every word on standard input, prints its count in the local store, or none.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.QueryableStoreTypes;

public final class StreamsApp {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("application.id", "app");
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("state.dir", arguments[1]);
        settings.put("processing.guarantee", arguments.length > 2 ? arguments[2] : "exactly_once_v2");
        settings.put("commit.interval.ms", "200");
        settings.put("num.stream.threads", "2");
        settings.put("statestore.cache.max.bytes", "0"); // every count is written
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        boolean classic = arguments.length < 4 || arguments[3].equals("classic");
        if (classic) {
            settings.put("consumer.session.timeout.ms", "6000"); // brokers set it for streams groups
        } else {
            settings.put("group.protocol", arguments[3]);
        }
        settings.put("consumer.auto.offset.reset", "earliest");
        settings.put("producer.transaction.timeout.ms", "10000");

        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> words = builder.<String, String>stream("lines")
            .flatMapValues(line -> Arrays.asList(line.split(" ")));
        words.groupBy((key, word) -> word)
            .count(Materialized.as("counts-store"))
            .toStream()
            .to("counts", Produced.with(Serdes.String(), Serdes.Long()));
        words.groupBy((key, word) -> "all", Grouped.as("all"))
            .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofDays(3650)))
            .count(Materialized.as("window-store"));
        KTable<String, String> customers = builder.table("customers");
        builder.<String, String>stream("orders")
            .join(customers, (order, customer) -> order + " for " + customer)
            .to("enriched");

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((now, before) -> System.out.println(now));
        streams.start();
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
        for (String word = asked.readLine(); word != null; word = asked.readLine()) {
            var store = streams.store(
                StoreQueryParameters.fromNameAndType("counts-store", QueryableStoreTypes.<String, Long>keyValueStore()));
            System.out.println(word + "=" + store.get(word));
        }
        streams.close();
    }
}
