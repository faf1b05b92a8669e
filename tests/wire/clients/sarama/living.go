package main

import (
	"context"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// An idempotent producer and a member of a group that live on from question to question, while brokers go and come.
var living struct {
	producer sarama.SyncProducer
	reader   *reader
}

// reader keeps what its group was given until it is asked for.
type reader struct {
	lock   sync.Mutex
	values []string
}

func (r *reader) Setup(sarama.ConsumerGroupSession) error { return nil }

func (r *reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		r.lock.Lock()
		r.values = append(r.values, string(message.Value))
		r.lock.Unlock()
		session.MarkMessage(message, "")
	}
	return nil
}

func patient() *sarama.Config {
	c := config()
	c.Producer.Idempotent, c.Producer.RequiredAcks, c.Net.MaxOpenRequests = true, sarama.WaitForAll, 1
	c.Producer.Retry.Max, c.Metadata.Retry.Max = 200, 20 // three, by default: a leader is gone for longer
	c.Consumer.Return.Errors, c.Consumer.Offsets.AutoCommit.Enable = false, true
	c.Consumer.Group.Heartbeat.Interval = 3 * time.Second
	return c
}

func liveSend(q question) (answer, error) {
	if living.producer == nil {
		made, err := sarama.NewSyncProducer(brokers, patient())
		if err != nil {
			return nil, err
		}
		living.producer = made
	}
	messages := make([]*sarama.ProducerMessage, len(q.Values))
	for i, value := range q.Values {
		messages[i] = &sarama.ProducerMessage{Topic: q.Topic, Partition: q.Partitions[i], Value: sarama.StringEncoder(value)}
	}
	return answer{}, living.producer.SendMessages(messages)
}

func liveRead(q question) (answer, error) {
	if living.reader == nil {
		group, err := sarama.NewConsumerGroup(brokers, q.Topic, patient())
		if err != nil {
			return nil, err
		}
		living.reader = &reader{}
		go func() {
			for {
				if group.Consume(context.Background(), []string{q.Topic}, living.reader) != nil {
					time.Sleep(100 * time.Millisecond)
				}
			}
		}()
	}
	time.Sleep(500 * time.Millisecond)
	living.reader.lock.Lock()
	defer living.reader.lock.Unlock()
	values := append([]string{}, living.reader.values...)
	living.reader.values = nil
	return answer{"values": values}, nil
}
