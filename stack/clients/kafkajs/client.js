// A kafkajs client with a history; stack/clients/kafka_js.py says what it is told.
"use strict";

const fs = require("fs");
const { CompressionTypes, Kafka, Partitioners, logLevel } = require("kafkajs");

const told = JSON.parse(process.env.SWITCHYARD_CLIENT);
const history = fs.openSync(told.out, "a");
const MAX_AT_ONCE = 500;
const FILE_POLL_MS = 100;
const TICK_MS = 5;
// Errors after which nothing of the record can lie in any log.
const NOT_APPENDED = new Set(["MESSAGE_TOO_LARGE", "INVALID_TOPIC_EXCEPTION", "TOPIC_AUTHORIZATION_FAILED"]);

const seconds = () => Date.now() / 1000;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const line = (event, fields) => JSON.stringify({ event, client: told.client, t: seconds(), ...fields }) + "\n";
// At once: from then on it outlives this process.
const write = (...lines) => fs.writeSync(history, lines.join(""));
const note = (text, fatal = false) => write(line("Noted", { text, fatal }));

let asked = false;
for (const name of ["SIGTERM", "SIGINT"]) process.on(name, () => (asked = true));
const begun = Date.now();
let nextLook = 0;
let fileSeen = false;

/** Whether the client is to end in order: a signal, its count, its time, its file. */
function isToEnd(done) {
  if (asked || (told.count && done >= told.count)) return true;
  if (told.duration_s && Date.now() - begun >= told.duration_s * 1000) return true;
  if (told.until_file && Date.now() >= nextLook) {
    nextLook = Date.now() + FILE_POLL_MS;
    fileSeen = fs.existsSync(told.until_file);
  }
  return fileSeen;
}

/** How many records are due. After a standstill it goes on from there: no burst to catch up. */
function pace(rate) {
  let start = Date.now();
  let given = 0;
  return (left) => {
    let number = MAX_AT_ONCE;
    if (rate > 0) {
      const expected = ((Date.now() - start) / 1000) * rate;
      const tooMany = expected - given - MAX_AT_ONCE;
      if (tooMany > 0) start += (tooMany / rate) * 1000;
      number = Math.min(MAX_AT_ONCE, Math.floor(expected - given));
    }
    number = Math.min(number, left);
    given += number;
    return number;
  };
}

function kafka() {
  const settings = { logLevel: logLevel.WARN, ...told.connection };
  if (settings.sasl && settings.sasl.mechanism === "oauthbearer") {
    const value = settings.sasl.password; // the token
    settings.sasl = { mechanism: "oauthbearer", oauthBearerProvider: async () => ({ value }) };
  }
  return new Kafka(settings);
}

/** All that is due, in a call for each key, or in one: a call has records of one partition only. kafkajs sends what it
 *  could not place again with all that was in the same call: with several partitions, of which one has another leader
 *  meanwhile, what was taken already is sent a second time. */
async function produce() {
  const byKey = Partitioners.DefaultPartitioner();
  let turn = 0;
  const createPartitioner = () => (asked) => (asked.message.key ? byKey(asked) : turn % asked.partitionMetadata.length);
  const producer = kafka().producer({ createPartitioner, ...told.role });
  await producer.connect();
  const due = pace(told.rate);
  let number = 0;
  while (!isToEnd(number)) {
    const groups = new Map();
    for (let left = due(told.count ? told.count - number : Infinity); left > 0; left -= 1) {
      const key = told.keys ? `k${number % told.keys}` : null;
      const name = `${told.client}-${number}`;
      const value = told.size_bytes > name.length ? `${name} `.padEnd(told.size_bytes, ".") : name;
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push({ name, key, value });
      write(line("Sent", { topic: told.topic, value: name, ...(key && { key }) }));
      number += 1;
    }
    for (const records of groups.values()) {
      turn += 1;
      await send(producer, records);
    }
    await pause(TICK_MS);
  }
  await producer.disconnect();
}

async function send(producer, records) {
  const { topic, acks } = told;
  const compression = told.compression ? CompressionTypes[told.compression.toUpperCase()] : undefined;
  const messages = records.map(({ key, value }) => ({ key, value }));
  try {
    const [place] = await producer.send({ topic, acks, compression, messages });
    if (acks === 0) return;
    const first = Number(place.baseOffset);
    const offset = (at) => (first < 0 ? -1 : first + at);
    const { partition } = place;
    write(...records.map(({ name }, at) => line("Acked", { topic, partition, offset: offset(at), value: name })));
  } catch (error) {
    const definite = NOT_APPENDED.has((error.cause || error).type);
    write(...records.map(({ name }) => line("Failed", { topic, value: name, definite, error: String(error) })));
  }
}

async function consume() {
  const byHand = told.commit === "batch";
  const consumer = kafka().consumer(told.role);
  const { COMMIT_OFFSETS, CRASH, GROUP_JOIN, REBALANCING } = consumer.events;
  let held = [];
  let crashed = null;
  let count = 0;

  const assign = (partitions) => {
    if (held.length) write(line("Revoked", { partitions: held, group: told.group }));
    held = partitions;
    if (held.length) write(line("Assigned", { partitions: held, group: told.group }));
  };
  consumer.on(GROUP_JOIN, ({ payload }) =>
    assign(Object.entries(payload.memberAssignment).flatMap(([topic, all]) => all.map((one) => [topic, one]))),
  );
  consumer.on(REBALANCING, () => assign([]));
  consumer.on(COMMIT_OFFSETS, ({ payload }) =>
    write(
      ...payload.topics.flatMap(({ topic, partitions }) =>
        partitions.map(({ partition, offset }) =>
          line("Committed", { group: told.group, topic, partition, offset: Number(offset) }),
        ),
      ),
    ),
  );
  consumer.on(CRASH, ({ payload }) => {
    assign([]);
    note(String(payload.error), !payload.restart);
    if (!payload.restart) crashed = payload.error; // otherwise it begins anew by itself
  });

  await consumer.connect();
  await consumer.subscribe({ topics: told.topics, fromBeginning: told.reset === "earliest" });
  await consumer.run({
    autoCommit: !byHand,
    eachBatchAutoResolve: false, // what is left out here, at a rebalance, would pass for read
    eachBatch: async ({ batch, resolveOffset, commitOffsetsIfNecessary, uncommittedOffsets, isRunning, isStale }) => {
      if (!isRunning() || isStale()) return;
      const { topic, partition, messages } = batch;
      const given = messages.map((one) =>
        line("Delivered", {
          topic,
          partition,
          offset: Number(one.offset),
          value: one.value === null ? "" : one.value.toString().split(" ", 1)[0],
          group: told.group,
        }),
      );
      write(...given);
      count += messages.length;
      resolveOffset(batch.lastOffset());
      if (byHand) {
        try {
          await commitOffsetsIfNecessary(uncommittedOffsets());
        } catch (error) {
          note(`commit: ${error}`);
          throw error; // with a rebalance it is kafkajs that goes on
        }
      }
    },
  });
  while (!crashed && !isToEnd(count)) await pause(20);
  await consumer.disconnect();
  if (crashed) throw crashed;
}

(told.do === "produce" ? produce : consume)().then(
  () => {
    write(line("Stopped", {}));
    process.exit(0);
  },
  (error) => {
    note(String(error), true);
    console.error(error);
    write(line("Stopped", {}));
    process.exit(1);
  },
);
