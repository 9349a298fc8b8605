package example;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.Transformation;

/** Writes "old" before a text. */
public class OldTransform<R extends ConnectRecord<R>> implements Transformation<R> {
    @Override
    public void configure(Map<String, ?> settings) {}

    @Override
    public R apply(R record) {
        return record.newRecord(
            record.topic(), record.kafkaPartition(), record.keySchema(), record.key(), record.valueSchema(),
            "old " + record.value(), record.timestamp());
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public void close() {}
}
