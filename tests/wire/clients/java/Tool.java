import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.kafka.common.utils.Exit;

/** One of Kafka's command line tools, run as its script runs it: its main method, what it reads and prints, its exit. */
final class Tool {
    private Tool() {}

    private static final class Ended extends Error {
        private static final long serialVersionUID = 1;

        private Ended() {
            super(null, null, false, false);
        }
    }

    static Map<String, Object> run(JsonNode question) throws Exception {
        List<String> arguments = new ArrayList<>();
        question.get("arguments").forEach(one -> arguments.add(one.asText()));
        List<Integer> codes = new CopyOnWriteArrayList<>();
        List<Runnable> hooks = new CopyOnWriteArrayList<>();
        Exit.Procedure end = (code, message) -> {
            codes.add(code);
            throw new Ended();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        PrintStream oldOut = System.out;
        PrintStream oldErr = System.err;
        InputStream oldIn = System.in;
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        System.setIn(new ByteArrayInputStream(question.path("input").asText().getBytes(StandardCharsets.UTF_8)));
        try {
            Class.forName(question.get("main").asText()).getMethod("main", String[].class)
                .invoke(null, (Object) arguments.toArray(new String[0]));
        } catch (InvocationTargetException error) {
            if (!(error.getCause() instanceof Ended)) {
                error.getCause().printStackTrace();
                codes.add(1); // as a virtual machine ends that nobody catches it in
            }
        } finally {
            hooks.forEach(Runnable::run);
            System.setOut(oldOut);
            System.setErr(oldErr);
            System.setIn(oldIn);
        }
        return Map.of("code", codes.isEmpty() ? 0 : codes.get(0), "out", out.toString(StandardCharsets.UTF_8),
            "err", err.toString(StandardCharsets.UTF_8));
    }
}
