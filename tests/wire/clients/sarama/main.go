// What tests/wire/matrix.py asks of a client, done with sarama: a line of JSON for each question, a line for each answer.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

const patience = 25 * time.Second

var brokers = strings.Split(os.Args[1], ",")

type question struct {
	Do, Topic, Group, Codec, Protocol, Assignor string
	Count                                       int
	Partitions                                  []int32
	Values                                      []string
}

type answer map[string]any

var codecs = map[string]sarama.CompressionCodec{
	"": sarama.CompressionNone, "none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

var strategies = map[string]func() sarama.BalanceStrategy{
	"range": sarama.NewBalanceStrategyRange, "roundrobin": sarama.NewBalanceStrategyRoundRobin,
	"sticky": sarama.NewBalanceStrategySticky, "cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky,
}

func config() *sarama.Config {
	c := sarama.NewConfig()
	if len(os.Args) > 2 { // or it asks as a client of Kafka 2.8 does
		c.Version = sarama.MaxVersion
	}
	c.Producer.Return.Successes = true
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Consumer.Return.Errors = true
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = false
	c.Consumer.Group.Heartbeat.Interval = 100 * time.Millisecond
	c.Consumer.MaxWaitTime = 100 * time.Millisecond
	return c
}

// produce writes count records to a partition; the offsets they got.
func produce(topic string, partition int32, count int, c *sarama.Config) ([]int64, error) {
	producer, err := sarama.NewSyncProducer(brokers, c)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	messages := make([]*sarama.ProducerMessage, count)
	for i := range messages {
		messages[i] = &sarama.ProducerMessage{
			Topic: topic, Partition: partition, Key: sarama.StringEncoder(fmt.Sprintf("k%d", i)),
			Value:   sarama.StringEncoder(fmt.Sprintf("value %d", i)),
			Headers: []sarama.RecordHeader{{Key: []byte("origin"), Value: []byte("EWR")}},
		}
	}
	if err := producer.SendMessages(messages); err != nil {
		return nil, err
	}
	offsets := make([]int64, count)
	for i, message := range messages {
		offsets[i] = message.Offset
	}
	return offsets, nil
}

func roundTrip(q question) (answer, error) {
	c := config()
	c.Producer.Compression = codecs[q.Codec]
	if q.Do == "idempotent" {
		c.Producer.Idempotent = true
		c.Producer.RequiredAcks = sarama.WaitForAll
		c.Producer.Flush.MaxMessages = 20
		c.Net.MaxOpenRequests = 1
	}
	offsets, err := produce(q.Topic, 0, q.Count, c)
	if err != nil {
		return nil, err
	}
	consumer, err := sarama.NewConsumer(brokers, c)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(q.Topic, 0, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer partition.AsyncClose()
	var records [][]any
	late := time.After(patience)
	for len(records) < q.Count {
		select {
		case m := <-partition.Messages():
			records = append(records, []any{m.Offset, string(m.Key), string(m.Value), string(m.Headers[0].Value)})
		case err := <-partition.Errors():
			return nil, err
		case <-late:
			return nil, fmt.Errorf("only %d of %d records came", len(records), q.Count)
		}
	}
	return answer{"offsets": offsets, "records": records}, nil
}

// member is one consumer of a group, and what it owns.
type member struct {
	group   sarama.ConsumerGroup
	cancel  context.CancelFunc
	ended   chan struct{}
	lock    sync.Mutex
	session sarama.ConsumerGroupSession
	owned   map[int32]bool
	seen    [][]int64
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.session = session
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	m.lock.Lock()
	m.owned[claim.Partition()] = true
	m.lock.Unlock()
	defer func() {
		m.lock.Lock()
		delete(m.owned, claim.Partition())
		m.lock.Unlock()
	}()
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		m.lock.Lock()
		m.seen = append(m.seen, []int64{int64(message.Partition), message.Offset})
		m.lock.Unlock()
	}
	return nil
}

func join(q question) (*member, error) {
	c := config()
	c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategies[q.Assignor]()}
	made, err := sarama.NewConsumerGroup(brokers, q.Group, c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{group: made, cancel: cancel, ended: make(chan struct{}), owned: map[int32]bool{}}
	go func() {
		defer close(m.ended)
		for ctx.Err() == nil {
			if err := made.Consume(ctx, []string{q.Topic}, m); errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
		}
	}()
	go func() {
		for err := range made.Errors() {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	return m, nil
}

func (m *member) leave() {
	m.cancel()
	<-m.ended
	_ = m.group.Close()
}

func (m *member) partitions() []int32 {
	m.lock.Lock()
	defer m.lock.Unlock()
	numbers := []int32{}
	for number := range m.owned {
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	return numbers
}

func (m *member) records() [][]int64 {
	m.lock.Lock()
	defer m.lock.Unlock()
	return slices.Clone(m.seen)
}

func until(done func() bool) error {
	for late := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			return errors.New("it did not become so in time")
		}
	}
	return nil
}

func group(q question, admin sarama.ClusterAdmin) (answer, error) {
	if err := admin.CreateTopic(q.Topic, &sarama.TopicDetail{NumPartitions: 4, ReplicationFactor: 1}, false); err != nil {
		return nil, err
	}
	fill := func(count int) error {
		for partition := range int32(4) {
			if _, err := produce(q.Topic, partition, count, config()); err != nil {
				return err
			}
		}
		return nil
	}
	if err := fill(10); err != nil {
		return nil, err
	}
	first, err := join(q)
	if err != nil {
		return nil, err
	}
	left := sync.OnceFunc(first.leave)
	defer left()
	if err := until(func() bool { return len(first.records()) >= 40 }); err != nil {
		return nil, err
	}
	first.session.Commit()
	second, err := join(q)
	if err != nil {
		return nil, err
	}
	defer second.leave()
	if err := until(func() bool { return len(first.partitions()) == 2 && len(second.partitions()) == 2 }); err != nil {
		return nil, err
	}
	shared := [][]int32{first.partitions(), second.partitions()}
	left()
	if err := until(func() bool { return len(second.partitions()) == 4 }); err != nil {
		return nil, err
	}
	before := second.records()
	if err := fill(1); err != nil {
		return nil, err
	}
	if err := until(func() bool { return len(second.records()) >= len(before)+4 }); err != nil {
		return nil, err
	}
	told, err := admin.DescribeConsumerGroups([]string{q.Group})
	if err != nil {
		return nil, err
	}
	seen := append(first.records(), before...)
	return answer{"shared": shared, "seen": seen, "after": second.records()[len(before):], "state": told[0].State}, nil
}

func offsets(q question, admin sarama.ClusterAdmin) (answer, error) {
	if err := admin.CreateTopic(q.Topic, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1}, false); err != nil {
		return nil, err
	}
	if _, err := produce(q.Topic, 0, 10, config()); err != nil {
		return nil, err
	}
	told := answer{}
	fetch := func(name string) error {
		found, err := admin.ListConsumerGroupOffsets(q.Group, map[string][]int32{q.Topic: {0, 1}})
		if err != nil {
			return err
		}
		at := []int64{-9, -9}
		for partition := range int32(2) {
			block := found.GetBlock(q.Topic, partition)
			if block == nil || block.Err != sarama.ErrNoError {
				return fmt.Errorf("partition %d is answered %v", partition, block)
			}
			at[partition] = block.Offset
		}
		told[name] = at
		return nil
	}
	commit := func(at map[int32]int64) error {
		wanted := map[int32]sarama.OffsetAndMetadata{}
		for partition, offset := range at {
			wanted[partition] = sarama.OffsetAndMetadata{Offset: offset, LeaderEpoch: -1}
		}
		_, err := admin.AlterConsumerGroupOffsets(q.Group, map[string]map[int32]sarama.OffsetAndMetadata{q.Topic: wanted}, nil)
		return err
	}
	listed := []bool{}
	list := func() error {
		groups, err := admin.ListConsumerGroups()
		_, is := groups[q.Group]
		listed = append(listed, is)
		return err
	}
	for _, step := range []func() error{
		func() error { return fetch("unknown") },
		func() error { return commit(map[int32]int64{0: 4, 1: 7}) },
		func() error { return fetch("committed") },
		func() error { return commit(map[int32]int64{0: 2}) },
		func() error { return fetch("reset") },
		func() error { return admin.DeleteConsumerGroupOffset(q.Group, q.Topic, 1) },
		func() error { return fetch("deleted") },
		list,
		func() error { return admin.DeleteConsumerGroup(q.Group) },
		list,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	told["listed"] = listed
	return told, nil
}

func administer(q question, admin sarama.ClusterAdmin) (answer, error) {
	told := answer{}
	value, changed := "60000", "70000"
	detail := &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &value}}
	if err := admin.CreateTopic(q.Topic, detail, false); err != nil {
		return nil, err
	}
	var again *sarama.TopicError
	if err := admin.CreateTopic(q.Topic, detail, false); !errors.As(err, &again) {
		return nil, fmt.Errorf("created twice: %w", err)
	}
	told["again"] = int16(again.Err)
	retention := func() (string, error) {
		entries, err := admin.DescribeConfig(sarama.ConfigResource{
			Type: sarama.TopicResource, Name: q.Topic, ConfigNames: []string{"retention.ms"},
		})
		if err != nil {
			return "", err
		}
		return entries[0].Value, nil
	}
	created, err := retention()
	if err != nil {
		return nil, err
	}
	set := map[string]sarama.IncrementalAlterConfigsEntry{
		"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &changed},
	}
	if err := admin.IncrementalAlterConfig(sarama.TopicResource, q.Topic, set, false); err != nil {
		return nil, err
	}
	altered, err := retention()
	if err != nil {
		return nil, err
	}
	told["retention"] = []string{created, altered}
	if err := admin.CreatePartitions(q.Topic, 3, nil, false); err != nil {
		return nil, err
	}
	if _, err := produce(q.Topic, 0, 10, config()); err != nil {
		return nil, err
	}
	if err := admin.DeleteRecords(q.Topic, map[int32]int64{0: 4}); err != nil {
		return nil, err
	}
	ends := []int64{}
	for _, which := range []int64{sarama.OffsetOldest, sarama.OffsetNewest} {
		found, err := admin.ListOffsets(map[string]map[int32]int64{q.Topic: {0: which}}, nil)
		if err != nil {
			return nil, err
		}
		ends = append(ends, found[q.Topic][0].Offset)
	}
	told["offsets"] = ends
	described, err := admin.DescribeTopics([]string{q.Topic})
	if err != nil {
		return nil, err
	}
	told["partitions"] = len(described[0].Partitions)
	if err := admin.DeleteTopic(q.Topic); err != nil {
		return nil, err
	}
	left, err := admin.ListTopics()
	if err != nil {
		return nil, err
	}
	_, is := left[q.Topic]
	told["gone"] = !is
	nodes, controller, err := admin.DescribeCluster()
	ids := []int32{}
	for _, node := range nodes {
		ids = append(ids, node.ID())
	}
	told["brokers"], told["controller"] = ids, controller
	return told, err
}

func answerTo(line []byte) (answer, error) {
	var q question
	if err := json.Unmarshal(line, &q); err != nil {
		return nil, err
	}
	switch q.Do {
	case "codec", "idempotent":
		return roundTrip(q)
	case "live send":
		return liveSend(q)
	case "live read":
		return liveRead(q)
	}
	admin, err := sarama.NewClusterAdmin(brokers, config())
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	switch q.Do {
	case "group":
		return group(q, admin)
	case "offsets":
		return offsets(q, admin)
	case "admin":
		return administer(q, admin)
	}
	return nil, fmt.Errorf("unknown question %q", q.Do)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		told, err := answerTo(lines.Bytes())
		if err != nil {
			told = answer{"error": err.Error()}
		}
		text, _ := json.Marshal(told)
		fmt.Println(string(text))
	}
}
