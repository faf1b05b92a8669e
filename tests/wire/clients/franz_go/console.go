package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// look asks what a web console over franz-go (Redpanda Console) asks of a cluster to draw its pages. The topic has
// records in partition 0, and one member of the group, who has committed.
func look(ctx context.Context, q question) (answer, error) {
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
	m, err := join(ctx, q)
	if err != nil {
		return nil, err
	}
	defer m.client.Close()
	if err := poll(ctx, func() bool { return len(m.seen) >= 10 }, m); err != nil {
		return nil, err
	}
	if err := m.client.CommitUncommittedOffsets(ctx); err != nil {
		return nil, err
	}
	told := answer{}
	for _, page := range []func(context.Context, *kadm.Client, question, answer) error{dashboard, topics, groups} {
		if err := page(ctx, admin, q, told); err != nil {
			return nil, err
		}
	}
	return told, nil
}

func dashboard(ctx context.Context, admin *kadm.Client, q question, told answer) error {
	versions, err := admin.ApiVersions(ctx)
	if err != nil {
		return err
	}
	told["asked"] = len(versions.Sorted())
	cluster, err := admin.BrokerMetadata(ctx)
	if err != nil {
		return err
	}
	told["cluster"], told["nodes"], told["controller"] = cluster.Cluster, cluster.Brokers.NodeIDs(), cluster.Controller
	quotas, err := admin.DescribeClientQuotas(ctx, false, nil)
	if err != nil {
		return err
	}
	told["quotas"] = len(quotas)
	users, err := admin.DescribeUserSCRAMs(ctx)
	if err != nil {
		return err
	}
	told["users"] = len(users)
	transactions, err := admin.ListTransactions(ctx, nil, nil)
	if err != nil {
		return err
	}
	told["transactions"] = len(transactions)
	directories, err := admin.DescribeAllLogDirs(ctx, nil)
	if err != nil {
		return err
	}
	sizes := map[string]int64{}
	directories.Each(func(one kadm.DescribedLogDir) {
		one.Topics.Each(func(partition kadm.DescribedLogDirPartition) {
			if partition.Topic == q.Topic {
				sizes[strconv.Itoa(int(partition.Partition))] = partition.Size
			}
		})
	})
	told["sizes"] = sizes
	return nil
}

func topics(ctx context.Context, admin *kadm.Client, q question, told answer) error {
	listed, err := admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return err
	}
	told["listed"] = listed.Has(q.Topic)
	told["internal"] = listed["__consumer_offsets"].IsInternal
	leaders, inSync := []int32{}, []int{}
	for _, partition := range listed[q.Topic].Partitions.Sorted() {
		leaders, inSync = append(leaders, partition.Leader), append(inSync, len(partition.ISR))
	}
	told["leaders"], told["in sync"] = leaders, inSync
	starts, err := admin.ListStartOffsets(ctx)
	if err != nil {
		return err
	}
	ends, err := admin.ListEndOffsets(ctx)
	if err != nil {
		return err
	}
	since, err := admin.ListOffsetsAfterMilli(ctx, 0, q.Topic)
	if err != nil {
		return err
	}
	start, _ := starts.Lookup(q.Topic, 0)
	end, _ := ends.Lookup(q.Topic, 0)
	after, _ := since.Lookup(q.Topic, 0)
	told["offsets"] = []int64{start.Offset, end.Offset, after.Offset}
	moving, err := admin.ListPartitionReassignments(ctx, nil)
	if err != nil {
		return err
	}
	told["reassignments"] = len(moving)
	var wanted kadm.TopicsSet
	wanted.Add(q.Topic, 0)
	producers, err := admin.DescribeProducers(ctx, wanted)
	if err != nil {
		return err
	}
	last := []int32{}
	producers.EachProducer(func(one kadm.DescribedProducer) { last = append(last, one.LastSequence) })
	told["producers"] = last
	return nil
}

func groups(ctx context.Context, admin *kadm.Client, q question, told answer) error {
	listed, err := admin.ListGroups(ctx)
	if err != nil {
		return err
	}
	_, told["grouped"] = listed[q.Group]
	described, err := admin.DescribeGroups(ctx, q.Group)
	if err != nil {
		return err
	}
	one := described[q.Group]
	told["coordinator"] = one.Coordinator.NodeID
	members := [][]any{}
	for _, each := range one.Members {
		assigned, is := each.Assigned.AsConsumer()
		if !is || len(assigned.Topics) != 1 {
			return fmt.Errorf("the assignment of a member cannot be read: %v", each.Assigned)
		}
		partitions := slices.Sorted(slices.Values(assigned.Topics[0].Partitions))
		members = append(members, []any{each.ClientHost, partitions})
	}
	told["members"] = members
	unknown := q.Group + "-unknown"
	found := admin.FetchManyOffsets(ctx, q.Group, unknown)
	committed := map[string]int64{}
	for _, each := range found[q.Group].Fetched.Sorted() {
		committed[fmt.Sprintf("%s-%d", each.Topic, each.Partition)] = each.At
	}
	told["committed"], told["unknown"] = committed, len(found[unknown].Fetched)
	return errors.Join(found[q.Group].Err, found[unknown].Err)
}
