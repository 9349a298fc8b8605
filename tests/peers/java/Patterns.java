// Match patterns with RE2 for Java, which Apache Kafka uses.
//
// An input line is a pattern and texts, separated by tabs. The output is "ok" and, for every text, 1 for a full match or
// 0; or "bad" and the reason why the pattern is invalid.

import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

public class Patterns {
    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] fields = line.split("\t", -1);
            try {
                Pattern pattern = Pattern.compile(fields[0]);
                var found = new StringBuilder();
                for (int i = 1; i < fields.length; i++) {
                    found.append(pattern.matcher(fields[i]).matches() ? "1" : "0");
                }
                out.println("ok\t" + found);
            } catch (PatternSyntaxException reason) {
                out.println("bad\t" + reason.getDescription());
            }
        }
    }
}
