// What tests/wire/matrix.py asks of a client, done with kafkajs: a line of JSON for each question, a line for each answer.
"use strict";

const readline = require("node:readline");
const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, PartitionAssigners, logLevel } = require("kafkajs");
const codecs = require("./codecs");
const living = require("./living");

const PATIENCE_MS = 25_000;
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
};
Object.assign(CompressionCodecs, {
  [CompressionTypes.Snappy]: codecs.snappy,
  [CompressionTypes.LZ4]: codecs.lz4,
  [CompressionTypes.ZSTD]: codecs.zstd,
});

const kafka = new Kafka({ clientId: "matrix", brokers: process.argv[2].split(","), logLevel: logLevel.NOTHING });

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function until(done) {
  for (const late = Date.now() + PATIENCE_MS; !done(); await sleep(5)) {
    if (Date.now() > late) throw new Error("it did not become so in time");
  }
}

const messages = (partition, first, count) =>
  Array.from({ length: count }, (_, i) => ({
    partition,
    key: `k${first + i}`,
    value: `value ${first + i}`,
    headers: { origin: "EWR" },
  }));

// Writes count records to a partition, so many a request; the offsets they got.
async function produce(topic, partition, count, { compression, each = count, ...settings } = {}) {
  const producer = kafka.producer(settings);
  await producer.connect();
  const offsets = [];
  for (let first = 0; first < count; first += each) {
    const [told] = await producer.send({ topic, compression, acks: -1, messages: messages(partition, first, each) });
    for (let i = 0; i < each; i++) offsets.push(Number(told.baseOffset) + i);
  }
  await producer.disconnect();
  return offsets;
}

async function roundTrip({ do: what, topic, codec, count }) {
  const settings =
    what === "idempotent" ? { idempotent: true, maxInFlightRequests: 1, each: 20 } : { compression: CODECS[codec] };
  const offsets = await produce(topic, 0, count, settings);
  const records = [];
  const consumer = kafka.consumer({ groupId: `${topic}-reader`, maxWaitTimeInMs: 100 }); // it reads in groups alone
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const eachMessage = async ({ partition, message }) => {
    if (partition !== 0) return;
    records.push([Number(message.offset), `${message.key}`, `${message.value}`, `${message.headers.origin}`]);
  };
  await consumer.run({ eachMessage, autoCommit: false });
  await until(() => records.length >= count);
  await consumer.disconnect();
  return { offsets, records };
}

// One consumer of a group, and what it owns.
class Member {
  constructor({ topic, group }) {
    this.topic = topic;
    this.owned = [];
    this.seen = [];
    this.consumer = kafka.consumer({
      groupId: group,
      heartbeatInterval: 100,
      maxWaitTimeInMs: 100,
      partitionAssigners: [PartitionAssigners.roundRobin],
    });
    this.consumer.on(this.consumer.events.GROUP_JOIN, ({ payload }) => {
      this.owned = [...(payload.memberAssignment[topic] ?? [])].sort();
    });
  }

  async join() {
    await this.consumer.connect();
    await this.consumer.subscribe({ topic: this.topic, fromBeginning: true });
    const eachMessage = async ({ partition, message }) => void this.seen.push([partition, Number(message.offset)]);
    await this.consumer.run({ eachMessage, autoCommit: false });
  }

  leave() {
    return this.consumer.disconnect();
  }
}

async function group(question, admin) {
  const { topic, group: groupId } = question;
  const partitions = [0, 1, 2, 3];
  const fill = (count) => Promise.all(partitions.map((partition) => produce(topic, partition, count)));
  await admin.createTopics({ topics: [{ topic, numPartitions: 4 }] });
  await fill(10);
  const [first, second] = [new Member(question), new Member(question)];
  try {
    await first.join();
    await until(() => first.seen.length >= 40);
    await first.consumer.commitOffsets(partitions.map((partition) => ({ topic, partition, offset: "10" })));
    await second.join();
    await until(() => first.owned.length === 2 && second.owned.length === 2);
    const shared = [first.owned, second.owned];
    await first.leave();
    await until(() => second.owned.length === 4);
    const before = second.seen.length;
    const seen = [...first.seen, ...second.seen];
    await fill(1);
    await until(() => second.seen.length >= before + 4);
    const { groups } = await admin.describeGroups([groupId]);
    return { shared, seen, after: second.seen.slice(before), state: groups[0].state };
  } finally {
    await first.leave();
    await second.leave();
  }
}

async function offsets({ topic, group: groupId }, admin) {
  await admin.createTopics({ topics: [{ topic, numPartitions: 2 }] });
  await Promise.all([0, 1].map((partition) => produce(topic, partition, 10)));
  const fetch = async () => {
    const [{ partitions }] = await admin.fetchOffsets({ groupId, topics: [topic] });
    return partitions.sort((a, b) => a.partition - b.partition).map((one) => Number(one.offset));
  };
  const listed = async () => (await admin.listGroups()).groups.some((one) => one.groupId === groupId);
  const unknown = await fetch();
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 100 });
  await consumer.connect();
  await consumer.subscribe({ topic });
  const joined = new Promise((done) => consumer.on(consumer.events.GROUP_JOIN, done));
  await consumer.run({ eachMessage: async () => {}, autoCommit: false });
  await joined;
  await consumer.commitOffsets([{ topic, partition: 0, offset: "4" }, { topic, partition: 1, offset: "7" }]);
  await consumer.disconnect();
  const committed = await fetch();
  await admin.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: "2" }] }); // it fetches for 5 s
  const reset = await fetch();
  const was = await listed();
  await admin.deleteGroups([groupId]);
  return { unknown, committed, reset, listed: [was, await listed()] }; // kafkajs has no OffsetDelete
}

async function administer({ topic }, admin) {
  const resource = { type: ConfigResourceTypes.TOPIC, name: topic };
  const retention = async () => {
    const { resources } = await admin.describeConfigs({ resources: [{ ...resource, configNames: ["retention.ms"] }] });
    return resources[0].configEntries[0].configValue;
  };
  const wanted = { topic, numPartitions: 1, configEntries: [{ name: "retention.ms", value: "60000" }] };
  if (!(await admin.createTopics({ topics: [wanted] }))) throw new Error("the topic was there");
  const again = (await admin.createTopics({ topics: [wanted] })) ? 0 : 36; // false is said for that error alone
  const created = await retention();
  const configEntries = [{ name: "retention.ms", value: "70000" }];
  await admin.alterConfigs({ resources: [{ ...resource, configEntries }] });
  const altered = await retention();
  await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] });
  await produce(topic, 0, 10);
  await admin.fetchTopicOffsets(topic); // or it knows no leader to send the next to
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: "4" }] });
  const ends = (await admin.fetchTopicOffsets(topic)).find((one) => one.partition === 0);
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
  await admin.deleteTopics({ topics: [topic] });
  const left = await admin.listTopics();
  const cluster = await admin.describeCluster();
  return {
    again,
    retention: [created, altered],
    partitions: topics[0].partitions.length,
    offsets: [Number(ends.low), Number(ends.high)],
    gone: !left.includes(topic),
    brokers: cluster.brokers.map((one) => one.nodeId),
    controller: cluster.controller,
  };
}

const ANSWERS = { codec: roundTrip, idempotent: roundTrip, group, offsets, admin: administer, ...living(kafka) };

async function main() {
  const admin = kafka.admin();
  await admin.connect();
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const question = JSON.parse(line);
    let told;
    try {
      told = await ANSWERS[question.do](question, admin);
    } catch (error) {
      told = { error: `${error.stack}` };
    }
    process.stdout.write(`${JSON.stringify(told)}\n`);
  }
  await admin.disconnect();
}

main();
