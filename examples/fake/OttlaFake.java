import java.io.BufferedReader;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Ottla's test broker for Java. It needs nothing but the JDK. In JUnit 5, start it in a {@code @BeforeAll} method, call
 * {@link #reset} in {@code @BeforeEach} and close it in {@code @AfterAll}.
 */
public final class OttlaFake implements AutoCloseable {
    private final HttpClient http = HttpClient.newHttpClient();
    private final Process process;
    private final String addresses;

    public OttlaFake(String... options) throws IOException {
        List<String> command = new ArrayList<>(List.of("ottla", "fake", "--with-parent"));
        command.addAll(List.of(options));
        process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        BufferedReader output = process.inputReader();
        addresses = output.readLine();
        if (addresses == null) {
            throw new IOException("ottla fake did not start");
        }
    }

    public String bootstrapServers() {
        return address("bootstrap_servers");
    }

    public String schemaRegistry() {
        return address("schema_registry");
    }

    private String address(String name) {
        Matcher found = Pattern.compile("\"" + name + "\": \"([^\"]*)\"").matcher(addresses);
        if (!found.find()) {
            throw new IllegalStateException("ottla fake was started without " + name);
        }
        return found.group(1);
    }

    /** Sends JSON to the control API and returns its JSON. */
    public String call(String method, String path, String json) throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(URI.create(address("control") + path))
                .header("Content-Type", "application/json")
                .method(method, HttpRequest.BodyPublishers.ofString(json))
                .build();
        HttpResponse<String> answer = http.send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() >= 300) {
            throw new IOException(method + " " + path + ": " + answer.body());
        }
        return answer.body();
    }

    public void reset() throws IOException, InterruptedException {
        call("POST", "/reset", "{}");
    }

    @Override
    public void close() throws IOException, InterruptedException {
        process.outputWriter().close();
        process.waitFor();
    }

    /** An example: {@code java OttlaFake.java}. */
    public static void main(String[] arguments) throws Exception {
        try (OttlaFake fake = new OttlaFake()) {
            fake.call("POST", "/topics", "{\"name\": \"orders\"}");
            fake.call("POST", "/topics/orders/records", "{\"value\": \"first\"}");
            System.out.println(fake.call("GET", "/topics/orders/records", ""));
            try {
                fake.call("POST", "/faults", "{\"api\": \"Prodce\", \"error\": \"INVALID_RECORD\"}");
            } catch (IOException refused) {
                System.out.println(refused.getMessage());
            }
        }
    }
}
