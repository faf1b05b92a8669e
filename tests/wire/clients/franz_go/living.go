package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// An idempotent producer and a member of a group that live on from question to question, while brokers go and come.
var living struct{ producer, member *kgo.Client }

func liveSend(ctx context.Context, q question) (answer, error) {
	if living.producer == nil {
		made, err := client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err != nil {
			return nil, err
		}
		living.producer = made
	}
	records := make([]*kgo.Record, len(q.Values))
	for i, value := range q.Values {
		records[i] = &kgo.Record{Topic: q.Topic, Partition: q.Partitions[i], Value: []byte(value)}
	}
	return answer{}, living.producer.ProduceSync(ctx, records...).FirstErr()
}

func liveRead(ctx context.Context, q question) (answer, error) {
	if living.member == nil {
		made, err := client(
			kgo.ConsumerGroup(q.Topic), kgo.ConsumeTopics(q.Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		)
		if err != nil {
			return nil, err
		}
		living.member = made
	}
	short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	values := []string{}
	living.member.PollFetches(short).EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	return answer{"values": values}, nil
}
