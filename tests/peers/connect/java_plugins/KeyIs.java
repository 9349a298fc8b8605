package example;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** True for records with a certain key. */
public class KeyIs<R extends ConnectRecord<R>> implements Predicate<R> {
    private Object key;

    @Override
    public void configure(Map<String, ?> settings) {
        key = settings.get("key");
    }

    @Override
    public boolean test(R record) {
        return key.equals(record.key());
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef().define("key", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "The key.");
    }

    @Override
    public void close() {}
}
