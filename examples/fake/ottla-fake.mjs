// Ottla's test broker for JavaScript: start it, prepare it and inject faults over HTTP.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

export class OttlaFake {
  static async start(...options) {
    const fake = new OttlaFake();
    fake.process = spawn("ottla", ["fake", "--with-parent", ...options], { stdio: ["pipe", "pipe", "inherit"] });
    for await (const line of createInterface({ input: fake.process.stdout })) {
      fake.addresses = JSON.parse(line);
      return fake;
    }
    throw new Error("ottla fake did not start");
  }

  get bootstrapServers() {
    return this.addresses.bootstrap_servers;
  }

  async call(method, path, body) {
    const response = await fetch(this.addresses.control + path, {
      method,
      headers: { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    const answer = text ? JSON.parse(text) : undefined;
    if (!response.ok) throw new Error(answer.message);
    return answer;
  }

  createTopic(name, partitions = 1) {
    return this.call("POST", "/topics", { name, partitions });
  }

  produce(topic, value) {
    return this.call("POST", `/topics/${topic}/records`, { value });
  }

  records(topic, partition = 0) {
    return this.call("GET", `/topics/${topic}/records?partition=${partition}`);
  }

  inject(fault) {
    return this.call("POST", "/faults", fault);
  }

  wait(condition) {
    return this.call("POST", "/wait", condition);
  }

  reset() {
    return this.call("POST", "/reset");
  }

  stop() {
    return new Promise((resolve) => {
      this.process.on("exit", resolve);
      this.process.stdin.end();
    });
  }
}
