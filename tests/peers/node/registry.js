// Registers, encodes and decodes with @kafkajs/confluent-schema-registry; prints the results for the test.
const { SchemaRegistry, SchemaType } = require('@kafkajs/confluent-schema-registry')

const AVRO = JSON.stringify({ type: 'record', name: 'Order', namespace: 'shop', fields: [{ name: 'id', type: 'int' }] })
const JSON_SCHEMA = JSON.stringify({ type: 'object', properties: { id: { type: 'integer' } }, required: ['id'] })
const PROTO = 'syntax = "proto3"; package shop; message Order { int32 id = 1; }'

async function main(url) {
  const registry = new SchemaRegistry({ host: url })
  for (const [type, schema] of [[SchemaType.AVRO, AVRO], [SchemaType.JSON, JSON_SCHEMA], [SchemaType.PROTOBUF, PROTO]]) {
    const subject = `node-${type}-value`
    const { id } = await registry.register({ type, schema }, { subject })
    const encoded = await registry.encode(id, { id: 7 })
    const fresh = new SchemaRegistry({ host: url })
    const decoded = await fresh.decode(encoded)
    console.log(`${type}: ${decoded.id} ${(await fresh.getLatestSchemaId(subject)) === id}`)
  }
  const other = AVRO.replace('"int"', '"string"')
  await registry
    .register({ type: SchemaType.AVRO, schema: other }, { subject: 'node-AVRO-value' })
    .then(() => console.log('accepted'), (error) => console.log(`refused: ${error.name}`))
}

main(process.argv[2]).catch((error) => {
  console.error(error)
  process.exit(1)
})
