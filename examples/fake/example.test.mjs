// Run with: node --test
import assert from "node:assert";
import { after, before, beforeEach, test } from "node:test";
import { OttlaFake } from "./ottla-fake.mjs";

let fake;
before(async () => { fake = await OttlaFake.start(); });
beforeEach(() => fake.reset());
after(() => fake.stop());

test("records are read back", async () => {
  await fake.createTopic("orders");
  await fake.produce("orders", "first");
  const records = await fake.records("orders");
  assert.deepEqual(records.map((record) => record.value), ["first"]);
});

test("a misspelt fault is refused", async () => {
  await assert.rejects(fake.inject({ api: "Prodce", error: "INVALID_RECORD" }), /Did you mean 'Produce'/);
});
