package example;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.storage.Converter;

/** JSON of structs with one field, written backwards. */
public class ReversedConverter implements Converter {
    @Override
    public void configure(Map<String, ?> settings, boolean isKey) {}

    @Override
    public byte[] fromConnectData(String topic, Schema schema, Object value) {
        String text = "{\"line\": \"" + ((Struct) value).getString("line") + "\"}";
        return new StringBuilder(text).reverse().toString().getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public SchemaAndValue toConnectData(String topic, byte[] value) {
        String text = new StringBuilder(new String(value, StandardCharsets.UTF_8)).reverse().toString();
        return new SchemaAndValue(Schema.STRING_SCHEMA, text);
    }
}
