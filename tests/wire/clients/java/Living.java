import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/** An idempotent producer and a member of a group that live on from question to question, while brokers go and come. */
final class Living {
    private static KafkaProducer<String, String> producer;
    private static KafkaConsumer<String, String> member;

    private Living() {}

    static Map<String, Object> send(JsonNode question) throws Exception {
        if (producer == null) {
            producer = new KafkaProducer<>(Matrix.settings(Map.of()), new StringSerializer(), new StringSerializer());
        }
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int i = 0; i < question.get("values").size(); i++) {
            int partition = question.get("partitions").get(i).asInt();
            String value = question.get("values").get(i).asText();
            sent.add(producer.send(new ProducerRecord<>(question.get("topic").asText(), partition, null, value)));
        }
        for (Future<RecordMetadata> one : sent) {
            one.get();
        }
        return Map.of();
    }

    static Map<String, Object> read(JsonNode question) {
        if (member == null) {
            String topic = question.get("topic").asText();
            member = Matrix.consumer(Map.of("group.id", topic));
            member.subscribe(List.of(topic));
        }
        List<String> values = new ArrayList<>();
        member.poll(Duration.ofMillis(500)).forEach(one -> values.add(one.value()));
        member.commitAsync();
        return Map.of("values", values);
    }
}
