import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;

/** Reads a reader's and a writer's schema per line; prints the reader's canonical text and the incompatibilities. */
public class AvroSchemas {
  public static void main(String[] arguments) throws Exception {
    ObjectMapper mapper = new ObjectMapper();
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      JsonNode pair = mapper.readTree(line);
      ObjectNode answer = mapper.createObjectNode();
      try {
        Schema reader = new Schema.Parser().parse(pair.get(0).asText());
        Schema writer = new Schema.Parser().parse(pair.get(1).asText());
        answer.put("canonical", reader.toString());
        ArrayNode found = answer.putArray("found");
        for (SchemaCompatibility.Incompatibility each :
            SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getResult().getIncompatibilities()) {
          found.addArray().add(each.getType().toString()).add(each.getLocation()).add(each.getMessage());
        }
      } catch (RuntimeException refused) {
        answer.put("refused", true);
      }
      out.println(mapper.writeValueAsString(answer));
    }
  }
}
