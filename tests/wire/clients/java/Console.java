import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaFilter;

/** What web consoles written in Java (Kafbat UI, AKHQ) ask of a cluster to draw their pages, page by page. */
final class Console {
    private final Admin admin;
    private final String topic;
    private final String group;
    private final Map<String, Object> told = new TreeMap<>();

    private Console(Admin admin, JsonNode question) {
        this.admin = admin;
        this.topic = question.get("topic").asText();
        this.group = question.get("group").asText();
    }

    /** The topic is there with records in partition 0, and the consumer is a member of the group that has committed. */
    static Map<String, Object> look(Admin admin, JsonNode question, KafkaConsumer<String, String> reader) throws Exception {
        Console console = new Console(admin, question);
        console.dashboard();
        console.brokers();
        console.topics();
        console.groups();
        console.messages(reader);
        return console.told;
    }

    private void dashboard() throws Exception {
        var cluster = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
        told.put("cluster", cluster.clusterId().get());
        told.put("nodes", cluster.nodes().get().stream().map(Node::id).toList());
        told.put("controller", cluster.controller().get().id());
        told.put("operations", cluster.authorizedOperations().get().stream().map(Enum::name).sorted().toList());
        told.put("features", new TreeMap<>(admin.describeFeatures().featureMetadata().get().finalizedFeatures().entrySet()
            .stream().collect(Collectors.toMap(Map.Entry::getKey, each -> (int) each.getValue().maxVersionLevel()))));
        try {
            admin.describeAcls(AclBindingFilter.ANY).values().get();
        } catch (ExecutionException error) {
            told.put("acls", error.getCause().getClass().getSimpleName());
        }
        told.put("quotas", admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().size());
        told.put("users", admin.describeUserScramCredentials().all().get().size());
        told.put("transactions", admin.listTransactions().all().get().size());
        told.put("quorum", admin.describeMetadataQuorum().quorumInfo().get().leaderId());
    }

    private void brokers() throws Exception {
        var resource = new ConfigResource(ConfigResource.Type.BROKER, "1");
        var config = admin.describeConfigs(List.of(resource)).all().get().get(resource);
        told.put("deletes topics", config.get("delete.topic.enable").value());
        var sizes = new TreeMap<String, Long>();
        for (var directory : admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1).values()) {
            directory.replicaInfos().forEach((partition, replica) -> {
                if (partition.topic().equals(topic)) {
                    sizes.put(String.valueOf(partition.partition()), replica.size());
                }
            });
            told.put("space", directory.totalBytes().isPresent() && directory.usableBytes().isPresent());
        }
        told.put("sizes", sizes);
    }

    private void topics() throws Exception {
        Set<String> names = admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();
        told.put("listed", names.contains(topic) && names.contains("__consumer_offsets"));
        var described = admin.describeTopics(List.of(topic, "__consumer_offsets")).allTopicNames().get();
        told.put("internal", described.get("__consumer_offsets").isInternal());
        told.put("leaders", described.get(topic).partitions().stream().map(each -> each.leader().id()).toList());
        told.put("in sync", described.get(topic).partitions().stream().map(each -> each.isr().size()).toList());
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        var options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        var config = admin.describeConfigs(List.of(resource), options).all().get().get(resource);

        ConfigEntry retention = config.get("retention.ms");
        told.put("retention", List.of(retention.source().name(), retention.type().name(), !retention.synonyms().isEmpty()));
        var partition = new TopicPartition(topic, 0);
        var offsets = new ArrayList<Long>();
        for (OffsetSpec spec : List.of(OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.forTimestamp(0))) {
            offsets.add(admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get().offset());
        }
        told.put("offsets", offsets);
        var producers = admin.describeProducers(List.of(partition)).all().get().get(partition).activeProducers();
        told.put("producers", producers.stream().map(each -> each.lastSequence()).toList());
        told.put("reassignments", admin.listPartitionReassignments().reassignments().get().size());
    }

    private void groups() throws Exception {
        told.put("grouped", admin.listGroups().all().get().stream().anyMatch(each -> each.groupId().equals(group)));
        var described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        told.put("coordinator", described.coordinator().id());
        told.put("members", described.members().stream().map(each -> List.of(each.host(),
            each.assignment().topicPartitions().stream().map(TopicPartition::partition).sorted().toList())).toList());
        var all = new ListConsumerGroupOffsetsSpec(); // of every partition that has any
        var unknown = group + "-unknown";
        var found = admin.listConsumerGroupOffsets(Map.of(group, all, unknown, all)).all().get();
        var committed = new TreeMap<String, Long>();
        found.get(group).forEach((place, at) -> committed.put(place.topic() + "-" + place.partition(), at.offset()));
        told.put("committed", committed);
        told.put("unknown", found.get(unknown).size());
    }

    /** The last two records, as a page of messages has them. */
    private void messages(KafkaConsumer<String, String> reader) {
        var partition = new TopicPartition(topic, 0);
        reader.assign(List.of(partition));
        long end = reader.endOffsets(List.of(partition)).get(partition);
        told.put("since", reader.offsetsForTimes(Map.of(partition, 0L)).get(partition).offset());
        reader.seek(partition, end - 2);
        var values = new ArrayList<String>();
        Matrix.until(() -> {
            Matrix.poll(reader, each -> values.add(each.value()));
            return values.size() >= 2;
        });
        told.put("last", values);
    }
}
