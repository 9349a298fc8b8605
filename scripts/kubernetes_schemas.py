"""Write JSON schemas for kubeconform: Kubernetes' own from the package kubernetes-validate, and those of resources that
others define. Unknown fields are refused, as `kubectl --validate=strict` does.

python scripts/kubernetes_schemas.py DIR CRDS…
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

# A bare "=" is a string here, and YAML 1.1 has a type of its own for it.
yaml.SafeLoader.add_constructor("tag:yaml.org,2002:value", yaml.SafeLoader.construct_yaml_str)

_REFERENCE = re.compile(r'#/\$defs/([^"]+)"')
_FREE = "x-kubernetes-preserve-unknown-fields"


def strict(schema: Any) -> Any:
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: strict(value) for key, value in schema.items()}
    if (
        isinstance(found.get("properties"), dict)
        and found.get("additionalProperties") is None
        and not found.get(_FREE)
    ):
        found["additionalProperties"] = False
    return found


def alone(schema: Any, definitions: dict[str, Any]) -> Any:
    """Return the schema with the definitions that it needs, because kubeconform loads no other files."""
    needed: dict[str, Any] = {}
    text = json.dumps(schema)
    waiting = set(_REFERENCE.findall(text))
    while waiting:
        name = waiting.pop()
        needed[name] = definitions[name]
        waiting |= set(_REFERENCE.findall(json.dumps(definitions[name]))) - needed.keys()
    kept = {name: value for name, value in schema.items() if name not in ("$id", "$schema")}
    return json.loads(re.sub(r'"\$ref": "[^"#]*#', '"$ref": "#', json.dumps({**kept, "$defs": needed})))


def main(target: Path, crds: list[Path]) -> None:
    target.mkdir(parents=True)
    bundled = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
    newest = max(
        bundled.iterdir(), key=lambda path: [int(each) for each in path.name.split("-")[0][1:].split(".")]
    )
    definitions = strict(json.loads((newest / "_definitions.json").read_text())["$defs"])
    for file in newest.glob("*-v[0-9]*.json"):
        (target / file.name).write_text(json.dumps(alone(strict(json.loads(file.read_text())), definitions)))
    for file in [each for folder in crds for each in folder.glob("*.yaml")]:
        resource = yaml.safe_load(file.read_text())
        if not isinstance(resource, dict) or resource.get("kind") != "CustomResourceDefinition":
            continue
        kind, group = resource["spec"]["names"]["kind"].lower(), resource["spec"]["group"].partition(".")[0]
        for version in resource["spec"]["versions"]:
            schema = strict(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            (target / f"{kind}-{group}-{version['name']}.json").write_text(json.dumps(schema))


main(Path(sys.argv[1]), [Path(each) for each in sys.argv[2:]])
