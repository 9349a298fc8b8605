package example;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.transforms.Transformation;

/** Writes texts, and the texts in structs, in capitals. Drops "drop" and fails for "fail". */
public abstract class Shout<R extends ConnectRecord<R>> implements Transformation<R> {
    private String mark;

    public static class Value<R extends ConnectRecord<R>> extends Shout<R> {}

    @Override
    public void configure(Map<String, ?> settings) {
        mark = settings.containsKey("mark") ? (String) settings.get("mark") : "";
    }

    @Override
    public R apply(R record) {
        Object value = record.value();
        if (value instanceof Struct) {
            Struct given = (Struct) value;
            Struct changed = new Struct(given.schema());
            for (Field field : given.schema().fields()) {
                if (given.get(field).equals("drop")) {
                    return null;
                }
                changed.put(field, given.get(field).toString().toUpperCase() + mark);
            }
            record.headers().addInt("shouted", mark.length() + 2);
            return with(record, changed);
        }
        if (value.equals("fail")) {
            throw new DataException("This value cannot be shouted");
        }
        return with(record, value.toString().toUpperCase() + mark);
    }

    private R with(R record, Object value) {
        return record.newRecord(
            record.topic(), record.kafkaPartition(), record.keySchema(), record.key(), record.valueSchema(), value,
            record.timestamp(), record.headers());
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef().define("mark", ConfigDef.Type.STRING, "", ConfigDef.Importance.LOW, "Text to append.");
    }

    @Override
    public void close() {}
}
