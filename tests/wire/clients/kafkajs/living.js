// An idempotent producer and a member of a group that live on from question to question, while brokers go and come.
"use strict";

const retry = { retries: 100, initialRetryTime: 50, maxRetryTime: 500 }; // five, by default: a leader is gone for longer

module.exports = (kafka) => {
  let producer;
  let values;

  async function send({ topic, partitions, values: given }) {
    if (!producer) {
      producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, retry });
      await producer.connect();
    }
    const messages = given.map((value, i) => ({ partition: partitions[i], value }));
    await producer.send({ topic, acks: -1, messages });
    return {};
  }

  async function read({ topic }) {
    if (!values) {
      values = [];
      const member = kafka.consumer({ groupId: topic, maxWaitTimeInMs: 100, retry });
      await member.connect();
      await member.subscribe({ topic, fromBeginning: true });
      await member.run({ eachMessage: async ({ message }) => void values.push(`${message.value}`) });
    }
    await new Promise((done) => setTimeout(done, 500));
    return { values: values.splice(0) };
  }

  return { "live send": send, "live read": read };
};
