import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * Kafka Streams' word count, as tests/wire/test_kafka_streams.py asks for it: a line of JSON for each question, and a line
 * for each answer. Words are grouped by themselves, through a repartition topic, and counted in a store that a changelog
 * topic has: in memory, so that who takes a task over must read all of it.
 */
public final class Streams {
    private static final Duration PATIENCE = Duration.ofSeconds(30);
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream ANSWERS = System.out;
    private static final Map<Integer, KafkaStreams> RUNNING = new HashMap<>();

    private static String broker;
    private static KafkaProducer<String, String> producer;
    private static KafkaConsumer<String, String> consumer;
    private static final Map<String, Long> COUNTS = new TreeMap<>();

    private Streams() {}

    public static void main(String[] arguments) throws Exception {
        broker = arguments[0];
        System.setOut(System.err); // what a library says is no answer
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            Map<String, Object> told;
            try {
                told = answerTo(JSON.readTree(line));
            } catch (Throwable error) {
                error.printStackTrace();
                told = Map.of("error", String.valueOf(error));
            }
            ANSWERS.println(JSON.writeValueAsString(told));
        }
        Runtime.getRuntime().halt(0);
    }

    private static Map<String, Object> answerTo(JsonNode question) throws Exception {
        int number = question.path("number").asInt();
        switch (question.get("do").asText()) {
            case "start":
                return start(number, question);
            case "count":
                return count(question);
            case "leave":
                RUNNING.remove(number).close(CloseOptions.timeout(PATIENCE)
                    .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
                return Map.of("left", number);
            default:
                throw new IllegalArgumentException(question.toString());
        }
    }

    /** One instance of the application, once it has a task. */
    private static Map<String, Object> start(int number, JsonNode question) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, question.get("application").asText());
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, broker);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, question.get("directory").asText() + "/" + number);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        StreamsBuilder words = new StreamsBuilder();
        words.<String, String>stream(question.get("topic").asText())
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word)
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream().mapValues(count -> Long.toString(count)).to(question.get("counts").asText());
        KafkaStreams application = new KafkaStreams(words.build(), settings);
        RUNNING.put(number, application);
        application.start();
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (tasks(application) == 0 || application.state() != KafkaStreams.State.RUNNING) {
            if (System.nanoTime() > end) {
                throw new IllegalStateException("no task for instance " + number + ", " + application.state());
            }
            Thread.sleep(20);
        }
        return Map.of("tasks", tasks(application));
    }

    private static int tasks(KafkaStreams application) {
        return application.metadataForLocalThreads().stream().mapToInt(one -> one.activeTasks().size()).sum();
    }

    /** Write lines, and what the words have come to once each has as many as is asked: at least once is what is promised. */
    private static Map<String, Object> count(JsonNode question) {
        Map<String, Object> reader = Map.of("bootstrap.servers", broker, "auto.offset.reset", "earliest",
            "group.id", question.get("counts").asText() + "-reader");
        if (producer == null) {
            producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", broker), new StringSerializer(), new StringSerializer());
            consumer = new KafkaConsumer<>(reader, new StringDeserializer(), new StringDeserializer());
            consumer.subscribe(List.of(question.get("counts").asText()));
        }
        int key = 0;
        for (JsonNode line : question.get("lines")) {
            producer.send(new ProducerRecord<>(question.get("topic").asText(), Integer.toString(key++), line.asText()));
        }
        producer.flush();
        Map<String, Long> wanted = new TreeMap<>();
        question.get("until").fields().forEachRemaining(one -> wanted.put(one.getKey(), one.getValue().asLong()));
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (System.nanoTime() < end && !wanted.entrySet().stream()
                .allMatch(one -> COUNTS.getOrDefault(one.getKey(), 0L) >= one.getValue())) {
            consumer.poll(Duration.ofMillis(100)).forEach(one -> COUNTS.put(one.key(), Long.valueOf(one.value())));
        }
        return Map.of("counts", COUNTS);
    }
}
