import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command line tools one after the other, without a new JVM for each.
 *
 * A line of input is a class and its arguments, each in Base64; a line of output is the exit code, the standard output
 * and the standard error, the latter two in Base64.
 */
public class Tools {
    static class Ended extends Error {
        final int code;

        Ended(int code) {
            super(null, null, false, false);
            this.code = code;
        }
    }

    public static void main(String[] ignored) throws Exception {
        PrintStream answers = System.out;
        // The first exit code counts: some tools continue after it if the process does not end.
        int[] asked = {-1};
        Exit.Procedure end = (code, message) -> {
            if (asked[0] < 0)
                asked[0] = code;
            throw new Ended(code);
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        Exit.setShutdownHookAdder((name, runnable) -> { });
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = input.readLine()) != null) {
            String[] words = line.split(" ");
            for (int i = 0; i < words.length; i++)
                words[i] = new String(Base64.getDecoder().decode(words[i].substring(1)), "UTF-8");
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true, "UTF-8"));
            System.setErr(new PrintStream(err, true, "UTF-8"));
            asked[0] = -1;
            int code = 0;
            try {
                Class.forName(words[0])
                    .getMethod("main", String[].class)
                    .invoke(null, (Object) Arrays.copyOfRange(words, 1, words.length));
            } catch (InvocationTargetException failure) {
                if (!(failure.getCause() instanceof Ended)) {
                    // Like the JVM for an uncaught exception.
                    System.err.println("Exception in thread \"main\" " + failure.getCause());
                    code = 1;
                }
            }
            if (asked[0] >= 0)
                code = asked[0];
            System.out.flush();
            System.err.flush();
            Base64.Encoder encoder = Base64.getEncoder();
            answers.println(
                code + " ." + encoder.encodeToString(out.toByteArray()) + " ." + encoder.encodeToString(err.toByteArray()));
            answers.flush();
        }
    }
}
