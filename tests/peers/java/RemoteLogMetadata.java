// Read records of __remote_log_metadata with Kafka's own classes, write them again, and name their metadata partition.
//
// An input line is a record value in hexadecimal. The output is the value as Kafka serializes it, its partition of 50,
// and Kafka's description, separated by tabs.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataTopicPartitioner;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;

public class RemoteLogMetadata {
    public static void main(String[] arguments) throws Exception {
        var serde = new RemoteLogMetadataSerde();
        var partitioner = new RemoteLogMetadataTopicPartitioner(50);
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            var metadata = serde.deserialize(HexFormat.of().parseHex(line));
            System.out.println(HexFormat.of().formatHex(serde.serialize(metadata))
                + "\t" + partitioner.metadataPartition(metadata.topicIdPartition()) + "\t" + metadata);
        }
    }
}
