// Typical kafkajs usage against the broker named on the command line: `node peer.js HOST:PORT`.
// Prints one line per step; a failed expectation ends it with a non-zero status.
'use strict'

const { Kafka, CompressionTypes, ConfigResourceTypes, logLevel } = require('kafkajs')

const kafka = new Kafka({ clientId: 'peer', brokers: [process.argv[2]], logLevel: logLevel.NOTHING })
const admin = kafka.admin()
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

async function until (condition) {
  const deadline = Date.now() + 30000
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`not within 30 s: ${condition}`)
    await sleep(20)
  }
}

async function consumer (topic, groupId, seen) {
  const member = kafka.consumer({ groupId, maxWaitTimeInMs: 200, heartbeatInterval: 200, readUncommitted: false })
  let partitions = []
  member.on(member.events.GROUP_JOIN, ({ payload }) => { partitions = payload.memberAssignment[topic] || [] })
  await member.connect()
  await member.subscribe({ topic, fromBeginning: true })
  await member.run({ eachMessage: async ({ message }) => { seen.push(message.value.toString()) } })
  return { partitions: () => partitions.length, leave: () => member.disconnect() }
}

async function produce (topic, values, options = {}) {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  await producer.send({ topic, messages: values.map((value, n) => ({ value, partition: n % 4 })), ...options })
  await producer.disconnect()
}

async function group () {
  await admin.createTopics({ topics: [{ topic: 'group', numPartitions: 4 }] })
  const seen = []
  const first = await consumer('group', 'g', seen)
  await until(() => first.partitions() === 4)
  const second = await consumer('group', 'g', seen)
  await until(() => first.partitions() === 2 && second.partitions() === 2)
  await produce('group', ['a', 'b', 'c', 'd'], { compression: CompressionTypes.GZIP })
  await until(() => seen.length === 4)
  const { groups: [described] } = await admin.describeGroups(['g'])
  console.log('group:', described.state, described.members.length, seen.sort().join(' '))
  await first.leave()
  await until(() => second.partitions() === 4)
  await produce('group', ['e', 'f', 'g', 'h'])
  await until(() => seen.length === 8)
  await second.leave()
  const [{ partitions }] = await admin.fetchOffsets({ groupId: 'g', topics: ['group'] })
  console.log('committed:', partitions.map(({ offset }) => offset).join(' '))
  await admin.resetOffsets({ groupId: 'g', topic: 'group', earliest: true })
  await admin.deleteGroups(['g'])
  console.log('groups:', (await admin.listGroups()).groups.length)
}

async function transactions () {
  await admin.createTopics({ topics: [{ topic: 'transactions' }] })
  const producer = kafka.producer({ transactionalId: 't', idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  for (const number of [0, 1, 2, 3]) {
    const transaction = await producer.transaction()
    await transaction.send({ topic: 'transactions', messages: [{ value: `${number}` }] })
    const topics = [{ topic: 'transactions', partitions: [{ partition: 0, offset: `${number + 1}` }] }]
    await transaction.sendOffsets({ consumerGroupId: 'copier', topics })
    await (number % 2 ? transaction.abort() : transaction.commit())
  }
  await producer.disconnect()
  await produce('transactions', ['end'])
  const seen = []
  const reader = await consumer('transactions', 'reader', seen)
  await until(() => seen.includes('end'))
  await reader.leave()
  const [{ partitions: [{ offset }] }] = await admin.fetchOffsets({ groupId: 'copier', topics: ['transactions'] })
  console.log('transactions:', seen.join(' '), 'offset', offset)
}

async function administration () {
  const topic = 'settings'
  const configEntries = [{ name: 'cleanup.policy', value: 'compact' }]
  await admin.createTopics({ topics: [{ topic, configEntries }] })
  console.log('again:', await admin.createTopics({ topics: [{ topic }] }))
  await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
  const { topics: [{ partitions }] } = await admin.fetchTopicMetadata({ topics: [topic] })
  const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: ['cleanup.policy'] }]
  const { resources: [{ configEntries: [entry] }] } = await admin.describeConfigs({ resources })
  console.log('topic:', partitions.length, entry.configValue)
  await admin.deleteTopics({ topics: [topic] })
  console.log('deleted:', !(await admin.listTopics()).includes(topic))
}

async function main () {
  await admin.connect()
  await group()
  await transactions()
  await administration()
  await admin.disconnect()
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
