// What tests/wire/matrix.py asks of a client, done with franz-go: a line of JSON for each question, a line for each answer.
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

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 25 * time.Second

var broker = os.Args[1]

type question struct {
	Do, Topic, Group, Codec, Protocol, Assignor string
	Count                                       int
	Partitions                                  []int32
	Values                                      []string
}

type answer map[string]any

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

var balancers = map[string]kgo.GroupBalancer{
	"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(), "sticky": kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(), "uniform": kgo.StickyBalancer(),
}

func client(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(strings.Split(broker, ",")...), kgo.FetchMaxWait(100 * time.Millisecond), kgo.MetadataMinAge(50 * time.Millisecond)}, options...)...)
}

// produce writes count records to a partition; the offsets they got.
func produce(ctx context.Context, topic string, partition int32, count int, options ...kgo.Opt) ([]int64, error) {
	cl, err := client(append(options, kgo.AllowAutoTopicCreation(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5*time.Millisecond))...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	records := make([]*kgo.Record, count)
	for i := range records {
		records[i] = &kgo.Record{
			Topic: topic, Partition: partition, Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "value %d", i),
			Headers: []kgo.RecordHeader{{Key: "origin", Value: []byte("EWR")}},
		}
	}
	if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return nil, err
	}
	offsets := make([]int64, count)
	for i, record := range records {
		offsets[i] = record.Offset
	}
	return offsets, nil
}

// consume reads count records of partition 0 from the beginning.
func consume(ctx context.Context, topic string, count int) ([][]any, error) {
	start := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
	cl, err := client(kgo.ConsumePartitions(start))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var got [][]any
	for len(got) < count {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		for _, record := range fetches.Records() {
			got = append(got, []any{record.Offset, string(record.Key), string(record.Value), string(record.Headers[0].Value)})
		}
	}
	return got, nil
}

func roundTrip(ctx context.Context, q question) (answer, error) {
	options := []kgo.Opt{kgo.ProducerBatchCompression(codecs[q.Codec])}
	if q.Do == "idempotent" {
		options = append(options, kgo.ProducerBatchMaxBytes(1024))
	} else {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	offsets, err := produce(ctx, q.Topic, 0, q.Count, options...)
	if err != nil {
		return nil, err
	}
	records, err := consume(ctx, q.Topic, q.Count)
	return answer{"offsets": offsets, "records": records}, err
}

// member is one consumer of a group, and what it owns.
type member struct {
	client *kgo.Client
	lock   sync.Mutex
	owned  map[int32]bool
	seen   [][]int64
}

func join(ctx context.Context, q question) (*member, error) {
	m := &member{owned: map[int32]bool{}}
	change := func(owns bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			m.lock.Lock()
			defer m.lock.Unlock()
			for _, partition := range changed[q.Topic] {
				if owns {
					m.owned[partition] = true
				} else {
					delete(m.owned, partition)
				}
			}
		}
	}
	if q.Protocol == "consumer" { // franz-go keeps KIP-848 behind this
		ctx = context.WithValue(ctx, "opt_in_kafka_next_gen_balancer_beta", true)
	}
	made, err := client(
		kgo.WithContext(ctx), kgo.ConsumerGroup(q.Group), kgo.ConsumeTopics(q.Topic), kgo.Balancers(balancers[q.Assignor]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.HeartbeatInterval(100*time.Millisecond),
		kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)),
	)
	m.client = made
	return m, err
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

// poll polls all members in turn until it is so.
func poll(ctx context.Context, done func() bool, members ...*member) error {
	for !done() {
		if ctx.Err() != nil {
			return errors.New("it did not become so in time")
		}
		for _, m := range members {
			short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			fetches := m.client.PollFetches(short)
			cancel()
			fetches.EachRecord(func(r *kgo.Record) { m.seen = append(m.seen, []int64{int64(r.Partition), r.Offset}) })
		}
	}
	return nil
}

func group(ctx context.Context, q question) (answer, error) {
	admin, err := kadm.NewOptClient(kgo.SeedBrokers(broker))
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	if _, err := admin.CreateTopic(ctx, 4, 1, nil, q.Topic); err != nil {
		return nil, err
	}
	fill := func(count int) error {
		for partition := range int32(4) {
			if _, err := produce(ctx, q.Topic, partition, count); err != nil {
				return err
			}
		}
		return nil
	}
	if err := fill(10); err != nil {
		return nil, err
	}
	first, err := join(ctx, q)
	if err != nil {
		return nil, err
	}
	defer first.client.Close()
	if err := poll(ctx, func() bool { return len(first.seen) >= 40 }, first); err != nil {
		return nil, err
	}
	if err := first.client.CommitUncommittedOffsets(ctx); err != nil {
		return nil, err
	}
	second, err := join(ctx, q)
	if err != nil {
		return nil, err
	}
	defer second.client.Close()
	even := func() bool { return len(first.partitions()) == 2 && len(second.partitions()) == 2 }
	if err := poll(ctx, even, first, second); err != nil {
		return nil, err
	}
	shared := [][]int32{first.partitions(), second.partitions()}
	first.client.Close()
	if err := poll(ctx, func() bool { return len(second.partitions()) == 4 }, second); err != nil {
		return nil, err
	}
	seen, before := append(first.seen, second.seen...), len(second.seen)
	if err := fill(1); err != nil {
		return nil, err
	}
	if err := poll(ctx, func() bool { return len(second.seen) >= before+4 }, second); err != nil {
		return nil, err
	}
	state, err := describe(ctx, admin, q)
	return answer{"shared": shared, "seen": seen, "after": second.seen[before:], "state": state}, err
}

// describe tells a group's state, asked in the way of its protocol.
func describe(ctx context.Context, admin *kadm.Client, q question) (string, error) {
	if q.Protocol == "consumer" {
		told, err := admin.DescribeConsumerGroups(ctx, q.Group)
		return told[q.Group].State, err
	}
	told, err := admin.DescribeGroups(ctx, q.Group)
	return told[q.Group].State, err
}

func offsets(ctx context.Context, q question) (answer, error) {
	admin, err := kadm.NewOptClient(kgo.SeedBrokers(broker))
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	if _, err := admin.CreateTopic(ctx, 2, 1, nil, q.Topic); err != nil {
		return nil, err
	}
	if _, err := produce(ctx, q.Topic, 0, 10); err != nil {
		return nil, err
	}
	commit := func(at map[int32]int64) error {
		var wanted kadm.Offsets
		for partition, offset := range at {
			wanted.AddOffset(q.Topic, partition, offset, -1)
		}
		return admin.CommitAllOffsets(ctx, q.Group, wanted)
	}
	told := answer{}
	fetch := func(name string) error {
		found, err := admin.FetchOffsetsForTopics(ctx, q.Group, q.Topic)
		at := []int64{-1, -1}
		for _, one := range found.Offsets()[q.Topic] {
			at[one.Partition] = one.At
		}
		told[name] = at
		return err
	}
	remove := func() error {
		var gone kadm.TopicsSet
		gone.Add(q.Topic, 1)
		deleted, err := admin.DeleteOffsets(ctx, q.Group, gone)
		return errors.Join(err, deleted.Error())
	}
	for _, step := range []func() error{
		func() error { return fetch("unknown") },
		func() error { return commit(map[int32]int64{0: 4, 1: 7}) },
		func() error { return fetch("committed") },
		func() error { return commit(map[int32]int64{0: 2}) },
		func() error { return fetch("reset") },
		remove,
		func() error { return fetch("deleted") },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	listed, err := admin.ListGroups(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := admin.DeleteGroup(ctx, q.Group); err != nil {
		return nil, err
	}
	left, err := admin.ListGroups(ctx)
	_, was := listed[q.Group]
	_, is := left[q.Group]
	told["listed"] = []bool{was, is}
	return told, err
}

func administer(ctx context.Context, q question) (answer, error) {
	admin, err := kadm.NewOptClient(kgo.SeedBrokers(broker))
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	retention := func() (string, error) {
		told, err := admin.DescribeTopicConfigs(ctx, q.Topic)
		if err != nil {
			return "", err
		}
		for _, one := range told[0].Configs {
			if one.Key == "retention.ms" {
				return one.MaybeValue(), nil
			}
		}
		return "", errors.New("no retention.ms was told")
	}
	configs := map[string]*string{"retention.ms": kadm.StringPtr("60000")}
	if _, err := admin.CreateTopic(ctx, 1, 1, configs, q.Topic); err != nil {
		return nil, err
	}
	var again *kerr.Error
	if _, err := admin.CreateTopic(ctx, 1, 1, configs, q.Topic); !errors.As(err, &again) {
		return nil, fmt.Errorf("created twice: %w", err)
	}
	created, err := retention()
	if err != nil {
		return nil, err
	}
	change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("70000")}}
	if _, err := admin.AlterTopicConfigs(ctx, change, q.Topic); err != nil {
		return nil, err
	}
	altered, err := retention()
	if err != nil {
		return nil, err
	}
	if _, err := admin.UpdatePartitions(ctx, 3, q.Topic); err != nil {
		return nil, err
	}
	if _, err := produce(ctx, q.Topic, 0, 10); err != nil {
		return nil, err
	}
	var below kadm.Offsets
	below.AddOffset(q.Topic, 0, 4, -1)
	cut, err := admin.DeleteRecords(ctx, below)
	if err = errors.Join(err, cut.Error()); err != nil {
		return nil, err
	}
	starts, err := admin.ListStartOffsets(ctx, q.Topic)
	if err != nil {
		return nil, err
	}
	ends, err := admin.ListEndOffsets(ctx, q.Topic)
	if err != nil {
		return nil, err
	}
	described, err := admin.ListTopics(ctx, q.Topic)
	if err != nil {
		return nil, err
	}
	start, _ := starts.Lookup(q.Topic, 0)
	end, _ := ends.Lookup(q.Topic, 0)
	if _, err := admin.DeleteTopics(ctx, q.Topic); err != nil {
		return nil, err
	}
	left, err := admin.ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	cluster, err := admin.BrokerMetadata(ctx)
	return answer{
		"again": again.Code, "retention": []string{created, altered}, "partitions": len(described[q.Topic].Partitions),
		"offsets": []int64{start.Offset, end.Offset}, "gone": !left.Has(q.Topic),
		"brokers": cluster.Brokers.NodeIDs(), "controller": cluster.Controller,
	}, err
}

func answerTo(line []byte) (answer, error) {
	var q question
	if err := json.Unmarshal(line, &q); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch q.Do {
	case "codec", "idempotent":
		return roundTrip(ctx, q)
	case "group":
		return group(ctx, q)
	case "offsets":
		return offsets(ctx, q)
	case "admin":
		return administer(ctx, q)
	case "live send":
		return liveSend(ctx, q)
	case "live read":
		return liveRead(ctx, q)
	case "console":
		return look(ctx, q)
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
