import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;

/** What groups go through beside members that come and go. The topic is there, with records. */
final class Turns {
    private Turns() {}

    /** A member that is known by its instance ends and comes back, and has what it had; then it leaves for good. */
    static Map<String, Object> known(JsonNode question) {
        List<String> topic = List.of(question.get("topic").asText());
        try (var first = Matrix.member(question, Map.of("group.instance.id", "a"))) {
            List<Integer> had;
            first.subscribe(topic);
            try (var second = Matrix.member(question, Map.of("group.instance.id", "b"))) {
                second.subscribe(topic);
                share(first, second);
                had = Matrix.owned(second);
                second.close(CloseOptions.timeout(Duration.ofSeconds(5)));
            }
            List<Integer> back;
            try (var again = Matrix.member(question, Map.of("group.instance.id", "b"))) {
                again.subscribe(topic);
                Matrix.until(() -> {
                    poll(first, again);
                    return Matrix.owned(again).size() == 2;
                });
                back = Matrix.owned(again);
                again.close(CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
            }
            Matrix.until(() -> {
                poll(first);
                return Matrix.owned(first).size() == 4;
            });
            return Map.of("had", had, "back", back);
        }
    }

    /** A pattern that the server reads (KIP-848), of whole names. */
    static Map<String, Object> pattern(JsonNode question, Admin admin) throws Exception {
        String topic = question.get("topic").asText();
        Matrix.create(admin, topic + "-too", 2);
        Matrix.create(admin, topic + "-not", 2);
        try (var member = Matrix.member(question, Map.of())) {
            member.subscribe(new SubscriptionPattern(topic + "(-too|-n)?"));
            Matrix.until(() -> {
                poll(member);
                return Matrix.owned(member).size() == 6;
            });
            return Map.of("topics", member.assignment().stream().map(each -> each.topic()).distinct().sorted().toList());
        }
    }

    /** A second member comes with the other protocol, and both share; the first leaves. The group's type by turns. */
    static Map<String, Object> changeOver(JsonNode question, Admin admin) throws Exception {
        List<String> topic = List.of(question.get("topic").asText());
        ObjectNode other = question.deepCopy();
        other.put("protocol", question.get("other").asText());
        List<String> types = new ArrayList<>();
        try (var first = Matrix.member(question, Map.of()); var second = Matrix.member(other, Map.of())) {
            first.subscribe(topic);
            Matrix.until(() -> {
                poll(first);
                return Matrix.owned(first).size() == 4;
            });
            types.add(type(admin, question));
            second.subscribe(topic);
            share(first, second);
            types.add(type(admin, question));
            first.unsubscribe();
            Matrix.until(() -> {
                poll(second);
                return Matrix.owned(second).size() == 4;
            });
            types.add(type(admin, question));
        }
        return Map.of("types", types);
    }

    private static String type(Admin admin, JsonNode question) throws Exception {
        String group = question.get("group").asText();
        return admin.describeConsumerGroups(List.of(group)).all().get().get(group).type().toString();
    }

    private static void share(KafkaConsumer<String, String> first, KafkaConsumer<String, String> second) {
        Matrix.until(() -> {
            poll(first, second);
            return Matrix.owned(first).size() == 2 && Matrix.owned(second).size() == 2;
        });
    }

    @SafeVarargs
    private static void poll(KafkaConsumer<String, String>... consumers) {
        for (var consumer : consumers) {
            Matrix.poll(consumer, each -> { });
        }
    }
}
