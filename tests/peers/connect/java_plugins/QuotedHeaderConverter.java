package example;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.storage.HeaderConverter;

/** Writes headers in quotation marks. */
public class QuotedHeaderConverter implements HeaderConverter {
    @Override
    public void configure(Map<String, ?> settings) {}

    @Override
    public byte[] fromConnectHeader(String topic, String key, Schema schema, Object value) {
        return ("\"" + value + "\"").getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public SchemaAndValue toConnectHeader(String topic, String key, byte[] value) {
        return new SchemaAndValue(Schema.STRING_SCHEMA, new String(value, StandardCharsets.UTF_8));
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public void close() {}
}
