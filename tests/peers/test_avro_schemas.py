"""Promise: parsing, printing and comparing Avro schemas matches Java's library, which Confluent's registry uses."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ottla.jvm.java import NoJava, java_home
from ottla.registry.schemas import InvalidSchema, check, parse
from tests.registry.schemas.avro.cases import CASES
from tests.registry.schemas.avro.test_parsing import PRINTED, REFUSED

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]

SOURCE = Path(__file__).parent / "java" / "AvroSchemas.java"
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


def javas(pairs: list[tuple[str, str]]) -> list[dict[str, Any]]:
    pyspark = pytest.importorskip("pyspark")
    jars = Path(pyspark.__file__).parent / "jars"
    try:
        java = java_home() / "bin" / "java"
    except NoJava as reason:
        pytest.skip(str(reason))
    if not java.with_name("javac").exists():
        pytest.skip(f"{java} runs no sources: it is not a JDK")
    lines = "".join(json.dumps(pair) + "\n" for pair in pairs)
    command = [str(java), "-Xmx256m", "-cp", f"{jars}/*", str(SOURCE)]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=500, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    for answer in answers:
        # A pair that occurs twice is listed twice.
        if "found" in answer:
            answer["found"] = [list(each) for each in dict.fromkeys(map(tuple, answer["found"]))]
    return answers


def ours(pair: tuple[str, str]) -> dict[str, Any]:
    try:
        reader, writer = (parse("AVRO", text, {}) for text in pair)
    except InvalidSchema:
        return {"refused": True}
    found = [[each.type, each.path, each.additional_info] for each in check(reader, writer)]
    return {"canonical": reader.canonical, "found": found}


def compare(pairs: list[tuple[str, str]]) -> None:
    answers = javas(pairs)
    assert len(answers) == len(pairs)
    wrong = {}
    for pair, answer in zip(pairs, answers, strict=True):
        # Java gives up on a field whose name and alias both occur in the writer. Here the name counts.
        gave_up = "canonical" in answer and "refused" in answer
        if not gave_up and answer != ours(pair):
            wrong[pair] = (answer, ours(pair))
    assert not wrong


def test_the_tables_are_javas() -> None:
    pairs = [case.texts() for case in CASES]
    pairs += [(text, text) for text, _ in PRINTED]
    pairs += [(text, text) for text in REFUSED.values()]
    compare(pairs)


def test_thousands_of_random_pairs_get_javas_answer() -> None:
    chance = random.Random(11)
    pairs = []
    for _ in range(4000):
        written = type_of(chance, "t", 3)
        read = changed(chance, written) if chance.random() < 0.9 else type_of(chance, "t", 3)
        pairs.append((json.dumps(read), json.dumps(written)))
    compare(pairs)


def type_of(chance: random.Random, path: str, depth: int) -> Any:
    kinds = ["primitive", "enum", "fixed", "array", "map", "record", "record", "union", "union"]
    match chance.choice(kinds if depth else kinds[:3]):
        case "primitive":
            return chance.choice(PRIMITIVES)
        case "enum":
            symbols = chance.sample("ABCD", chance.randint(1, 4))
            return {
                "type": "enum",
                "name": f"E_{path}",
                "symbols": symbols,
                **maybe(chance, default=symbols[0]),
            }
        case "fixed":
            return {"type": "fixed", "name": f"F_{path}", "size": chance.randint(1, 2)}
        case "array":
            return {"type": "array", "items": type_of(chance, path + "i", depth - 1)}
        case "map":
            return {"type": "map", "values": type_of(chance, path + "v", depth - 1)}
        case "union":
            return [type_of(chance, f"{path}u{index}", depth - 1) for index in range(chance.randint(0, 3))]
    names = chance.sample("abcd", chance.randint(0, 4))
    fields = [
        {
            "name": name,
            "type": type_of(chance, path + name, depth - 1) if chance.random() < 0.9 else f"R_{path}",
            **maybe(chance, default=chance.choice((None, 1, "x", [], {}, 1.5, True))),
            **maybe(chance, aliases=[chance.choice("abcd")]),
        }
        for name in names
    ]
    return {
        "type": "record",
        "name": f"R_{path}",
        "fields": fields,
        **maybe(chance, namespace="n", aliases=["R_t"]),
    }


def maybe(chance: random.Random, **attributes: Any) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if chance.random() < 0.2}


def changed(chance: random.Random, schema: Any) -> Any:
    if chance.random() < 0.08:
        return type_of(chance, "t", 1)
    if isinstance(schema, list):
        kept = [changed(chance, branch) for branch in schema if chance.random() < 0.9]
        return [*kept, chance.choice(PRIMITIVES)] if chance.random() < 0.3 else kept
    if isinstance(schema, str):
        return chance.choice(PRIMITIVES) if schema in PRIMITIVES and chance.random() < 0.2 else schema
    copy = dict(schema)
    for key in ("items", "values"):
        if key in copy:
            copy[key] = changed(chance, copy[key])
    if "fields" in copy:
        kept = [field for field in copy["fields"] if chance.random() < 0.85]
        copy["fields"] = [{**field, "type": changed(chance, field["type"])} for field in kept]
    if "symbols" in copy:
        copy["symbols"] = chance.sample("ABCD", chance.randint(1, 4))
        copy.pop("default", None)
    if "size" in copy and chance.random() < 0.2:
        copy["size"] += 1
    return copy
