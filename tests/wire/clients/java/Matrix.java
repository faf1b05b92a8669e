import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What tests/wire/matrix.py asks of a client, done with Kafka's own Java client: a line of JSON for each question, a line
 * for each answer. Kafka's command line tools run in it, too: to start a virtual machine for each takes a second.
 */
public final class Matrix {
    private static final Duration PATIENCE = Duration.ofSeconds(25);
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream ANSWERS = System.out;

    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "RangeAssignor", "roundrobin", "RoundRobinAssignor",
        "sticky", "StickyAssignor", "cooperative-sticky", "CooperativeStickyAssignor");

    private static String broker;

    private Matrix() {}

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
        switch (question.get("do").asText()) {
            case "codec":
            case "idempotent":
                return roundTrip(question);
            case "group":
                return group(question);
            case "offsets":
                return offsets(question);
            case "admin":
                return administer(question);
            case "console":
                return console(question);
            case "static":
            case "pattern":
            case "change over":
                return turn(question);
            case "live send":
                return Living.send(question);
            case "live read":
                return Living.read(question);
            case "tool":
                return Tool.run(question);
            default:
                throw new IllegalArgumentException("unknown question " + question);
        }
    }

    static Properties settings(Map<String, String> more) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", broker);
        settings.putAll(more);
        return settings;
    }

    private static Admin admin() {
        return Admin.create(settings(Map.of()));
    }

    static void create(Admin admin, String topic, int partitions) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
    }

    private static List<Long> produce(String topic, int partition, int count, Map<String, String> more) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        Properties settings = settings(more);
        settings.putIfAbsent("linger.ms", "5");
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < count; i++) {
                var each = new ProducerRecord<>(topic, partition, "k" + i, "value " + i);
                each.headers().add("origin", "EWR".getBytes(StandardCharsets.UTF_8));
                sent.add(producer.send(each));
            }
            producer.flush();
        }
        List<Long> offsets = new ArrayList<>();
        for (Future<RecordMetadata> one : sent) {
            offsets.add(one.get().offset());
        }
        return offsets;
    }

    static KafkaConsumer<String, String> consumer(Map<String, String> more) {
        Properties settings = settings(more);
        settings.put("fetch.max.wait.ms", "100");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private static Map<String, Object> roundTrip(JsonNode question) throws Exception {
        String topic = question.get("topic").asText();
        int count = question.get("count").asInt();
        Map<String, String> how = question.get("do").asText().equals("idempotent")
            ? Map.of("enable.idempotence", "true", "batch.size", "1024")
            : Map.of("enable.idempotence", "false", "compression.type", question.get("codec").asText());
        List<Long> offsets = produce(topic, 0, count, how);
        List<List<Object>> records = new ArrayList<>();
        try (var consumer = consumer(Map.of())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            until(() -> {
                poll(consumer, each -> {
                    String origin = new String(each.headers().lastHeader("origin").value(), StandardCharsets.UTF_8);
                    records.add(List.of(each.offset(), each.key(), each.value(), origin));
                });
                return records.size() >= count;
            });
        }
        return Map.of("offsets", offsets, "records", records);
    }

    static void until(BooleanSupplier done) {
        long late = System.nanoTime() + PATIENCE.toNanos();
        while (!done.getAsBoolean()) {
            if (System.nanoTime() > late) {
                throw new IllegalStateException("it did not become so in time");
            }
        }
    }

    /** One consumer of a group, who has not subscribed yet. */
    static KafkaConsumer<String, String> member(JsonNode question, Map<String, String> more) {
        String assignor = question.get("assignor").asText();
        Map<String, String> settings = new TreeMap<>(more);
        settings.put("group.id", question.get("group").asText());
        if (question.get("protocol").asText().equals("consumer")) {
            settings.putAll(Map.of("group.protocol", "consumer", "group.remote.assignor", assignor));
        } else {
            String strategy = "org.apache.kafka.clients.consumer." + ASSIGNORS.get(assignor);
            settings.putAll(Map.of("partition.assignment.strategy", strategy, "heartbeat.interval.ms", "100"));
        }
        return consumer(settings);
    }

    static void poll(KafkaConsumer<String, String> consumer, Consumer<ConsumerRecord<String, String>> seen) {
        consumer.poll(Duration.ofMillis(50)).forEach(seen);
    }

    private static void poll(KafkaConsumer<String, String> consumer, Collection<List<Long>> seen) {
        poll(consumer, each -> seen.add(List.of((long) each.partition(), each.offset())));
    }

    static List<Integer> owned(KafkaConsumer<String, String> consumer) {
        return consumer.assignment().stream().map(TopicPartition::partition).sorted().toList();
    }

    private static void fill(String topic, int count) throws Exception {
        for (int partition = 0; partition < 4; partition++) {
            produce(topic, partition, count, Map.of());
        }
    }

    private static Map<String, Object> group(JsonNode question) throws Exception {
        String topic = question.get("topic").asText();
        String group = question.get("group").asText();
        try (Admin admin = admin(); var first = member(question, Map.of()); var second = member(question, Map.of())) {
            create(admin, topic, 4);
            fill(topic, 10);
            List<List<Long>> seen = new ArrayList<>();
            first.subscribe(List.of(topic));
            until(() -> {
                poll(first, seen);
                return seen.size() >= 40;
            });
            first.commitSync();
            second.subscribe(List.of(topic));
            until(() -> {
                poll(first, seen);
                poll(second, seen);
                return owned(first).size() == 2 && owned(second).size() == 2;
            });
            List<List<Integer>> shared = List.of(owned(first), owned(second));
            first.unsubscribe(); // it leaves
            until(() -> {
                poll(second, seen);
                return owned(second).size() == 4;
            });
            List<List<Long>> after = new ArrayList<>();
            fill(topic, 1);
            until(() -> {
                poll(second, after);
                return after.size() >= 4;
            });
            var told = admin.describeConsumerGroups(List.of(group)).describedGroups().get(group).get();
            return Map.of(
                "shared", shared, "seen", seen, "after", after,
                "state", told.groupState().toString(), "type", told.type().toString());
        }
    }

    private static Map<String, Object> turn(JsonNode question) throws Exception {
        String topic = question.get("topic").asText();
        try (Admin admin = admin()) {
            create(admin, topic, 4);
            fill(topic, 10);
            switch (question.get("do").asText()) {
                case "static":
                    return Turns.known(question);
                case "pattern":
                    return Turns.pattern(question, admin);
                default:
                    return Turns.changeOver(question, admin);
            }
        }
    }

    private static List<Long> committed(Admin admin, String topic, String group) throws Exception {
        var found = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
        List<Long> offsets = new ArrayList<>();
        for (int partition = 0; partition < 2; partition++) {
            OffsetAndMetadata at = found.get(new TopicPartition(topic, partition));
            offsets.add(at == null ? -1 : at.offset());
        }
        return offsets;
    }

    private static boolean listed(Admin admin, String group) throws Exception {
        return admin.listGroups().all().get().stream().anyMatch(one -> one.groupId().equals(group));
    }

    private static Map<String, Object> offsets(JsonNode question) throws Exception {
        String topic = question.get("topic").asText();
        String group = question.get("group").asText();
        var zero = new TopicPartition(topic, 0);
        var one = new TopicPartition(topic, 1);
        Map<String, Object> told = new TreeMap<>();
        try (Admin admin = admin()) {
            create(admin, topic, 2);
            produce(topic, 0, 10, Map.of());
            told.put("unknown", committed(admin, topic, group));
            var both = Map.of(zero, new OffsetAndMetadata(4), one, new OffsetAndMetadata(7));
            admin.alterConsumerGroupOffsets(group, both).all().get();
            told.put("committed", committed(admin, topic, group));
            admin.alterConsumerGroupOffsets(group, Map.of(zero, new OffsetAndMetadata(2))).all().get();
            told.put("reset", committed(admin, topic, group));
            admin.deleteConsumerGroupOffsets(group, Set.of(one)).all().get();
            told.put("deleted", committed(admin, topic, group));
            boolean was = listed(admin, group);
            admin.deleteConsumerGroups(List.of(group)).all().get();
            told.put("listed", List.of(was, listed(admin, group)));
        }
        return told;
    }

    private static String retention(Admin admin, ConfigResource resource) throws Exception {
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms").value();
    }

    private static Map<String, Object> administer(JsonNode question) throws Exception {
        String topic = question.get("topic").asText();
        var partition = new TopicPartition(topic, 0);
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        var wanted = List.of(new NewTopic(topic, 1, (short) 1).configs(Map.of("retention.ms", "60000")));
        Map<String, Object> told = new TreeMap<>();
        try (Admin admin = admin()) {
            admin.createTopics(wanted).all().get();
            try {
                admin.createTopics(wanted).all().get();
            } catch (ExecutionException error) {
                told.put("again", Errors.forException(error.getCause()).code());
            }
            String created = retention(admin, resource);
            var change = new AlterConfigOp(new ConfigEntry("retention.ms", "70000"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
            told.put("retention", List.of(created, retention(admin, resource)));
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
            produce(topic, 0, 10, Map.of());
            admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(4))).all().get();
            var start = admin.listOffsets(Map.of(partition, OffsetSpec.earliest())).partitionResult(partition).get();
            var end = admin.listOffsets(Map.of(partition, OffsetSpec.latest())).partitionResult(partition).get();
            told.put("offsets", List.of(start.offset(), end.offset()));
            told.put("partitions", admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size());
            admin.deleteTopics(List.of(topic)).all().get();
            told.put("gone", !admin.listTopics().names().get().contains(topic));
            told.put("brokers", admin.describeCluster().nodes().get().stream().map(Node::id).toList());
            told.put("controller", admin.describeCluster().controller().get().id());
        }
        return told;
    }

    private static Map<String, Object> console(JsonNode question) throws Exception {
        String topic = question.get("topic").asText();
        try (Admin admin = admin(); var member = member(question, Map.of()); var reader = consumer(Map.of())) {
            create(admin, topic, 2);
            produce(topic, 0, 10, Map.of());
            List<List<Long>> seen = new ArrayList<>();
            member.subscribe(List.of(topic));
            until(() -> {
                poll(member, seen);
                return seen.size() >= 10;
            });
            member.commitSync();
            return Console.look(admin, question, reader);
        }
    }
}
