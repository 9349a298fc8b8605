"""The Helm chart renders with each set of values in ci/, and Kubernetes accepts the result."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla.broker.environment import settings_from_environment
from ottla.metadata.configs.broker_config import BrokerConfig

pytestmark = pytest.mark.deploy

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "ottla"
VALUES = [None, *sorted((CHART / "ci").glob("*-values.yaml"))]

Resource = dict[str, Any]
Render = Callable[..., str]
Resources = Callable[..., dict[tuple[str, str], Resource]]


@pytest.fixture
def render(tool: Callable[[str], str]) -> Render:
    def rendered(values: Path | None, *options: str) -> str:
        files = [] if values is None else ["-f", str(values)]
        command = [tool("helm"), "template", "kafka", str(CHART), "-n", "prod", "--kube-version", "1.31.0"]
        done = subprocess.run([*command, *files, *options], capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(done.stderr)
        return done.stdout

    return rendered


@pytest.fixture
def resources(render: Render) -> Resources:
    def found(values: str | None) -> dict[tuple[str, str], Resource]:
        text = render(None if values is None else CHART / "ci" / f"{values}-values.yaml")
        documents = [each for each in yaml.safe_load_all(text) if each]
        return {(each["kind"], each["metadata"]["name"]): each for each in documents}

    return found


@pytest.fixture
def kubeconform(tool: Callable[[str], str], tools: Path) -> Callable[[str], str]:
    """Return the problems that Kubernetes would have with these resources."""

    def check(text: str) -> str:
        where = f"{tools}/schemas/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
        command = [tool("kubeconform"), "-strict", "-schema-location", where]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False).stdout

    return check


def broker_config(resource: Resource, host_name: str) -> BrokerConfig:
    """Return the settings of a pod, as the kubelet and the broker would."""
    pod = resource["spec"]["template"]["spec"]
    given = {each["name"]: each["value"] for each in pod["containers"][0]["env"] if "value" in each}
    given = {name: value.replace("$(POD_NAME)", host_name) for name, value in given.items()}
    files = [name for name in given if name.endswith("_FILE")]
    for name in files:
        del given[name]
    return BrokerConfig.embedded(settings_from_environment(given, host_name=host_name))


@pytest.mark.parametrize("values", VALUES, ids=lambda each: "default" if each is None else each.stem)
def test_helm_and_kubernetes_accept_it(
    values: Path | None, tool: Callable[[str], str], render: Render, kubeconform: Callable[[str], str]
) -> None:
    files = [] if values is None else ["-f", str(values)]
    command = [tool("helm"), "lint", "--strict", str(CHART), *files]
    linted = subprocess.run(command, capture_output=True, text=True, check=False)
    assert linted.returncode == 0, linted.stdout
    assert kubeconform(render(values)) == ""


def test_an_unknown_field_would_be_found(render: Render, kubeconform: Callable[[str], str]) -> None:
    wrong = render(None).replace("enableServiceLinks:", "enableServiceLink:")
    assert "StatefulSet kafka-ottla-broker is invalid" in kubeconform(wrong)


def test_brokers_find_zookeeper_and_each_other(resources: Resources) -> None:
    found = resources(None)
    config = broker_config(found["StatefulSet", "kafka-ottla-broker"], "kafka-ottla-broker-2")
    assert config.warnings == []
    assert config.broker_id == 2
    assert config.zookeeper_connect == (
        ",".join(
            f"kafka-ottla-zookeeper-{each}.kafka-ottla-zookeeper.prod.svc.cluster.local:2181"
            for each in range(3)
        )
        + "/ottla"
    )
    assert config.get_list("advertised.listeners") == [
        "INSIDE://kafka-ottla-broker-2.kafka-ottla-brokers.prod.svc.cluster.local:9092"
    ]
    assert config.get_int("min.insync.replicas") == 2
    seconds = found["StatefulSet", "kafka-ottla-broker"]["spec"]["template"]["spec"][
        "terminationGracePeriodSeconds"
    ]
    assert seconds > config.get_int("ottla.shutdown.timeout.ms") / 1000


def test_pools_have_ids_and_settings_of_their_own_and_racks_of_their_nodes(resources: Resources) -> None:
    found = resources("existing-zookeeper")
    large = found["StatefulSet", "kafka-ottla-large"]
    config = broker_config(large, "kafka-ottla-large-1")
    assert (config.broker_id, config.get_int("log.retention.hours")) == (101, 720)
    assert config.zookeeper_connect == "zk-0.example.com:2181,zk-1.example.com:2181/ottla"
    plain = broker_config(found["StatefulSet", "kafka-ottla-broker"], "kafka-ottla-broker-0")
    assert plain.get_int("log.retention.bytes") == 1073741824
    environment = large["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "KAFKA_BROKER_RACK_FILE", "value": "/rack/rack"} in environment
    compile(found["ConfigMap", "kafka-ottla-scripts"]["data"]["rack.py"], "rack.py", "exec")


def test_clients_outside_get_an_address_per_broker(resources: Resources) -> None:
    found = resources("node-ports")
    config = broker_config(found["StatefulSet", "kafka-ottla-broker"], "kafka-ottla-broker-1")
    assert config.get_list("advertised.listeners")[1] == "OUTSIDE://node.example.com:32091"
    service = found["Service", "kafka-ottla-outside-1"]["spec"]
    assert service["ports"][0]["nodePort"] == 32091
    assert service["selector"]["statefulset.kubernetes.io/pod-name"] == "kafka-ottla-broker-1"


def test_certificates_are_for_all_names(resources: Resources) -> None:
    found = resources("secure")
    names = found["Certificate", "kafka-ottla"]["spec"]["dnsNames"]
    assert "*.kafka-ottla-brokers.prod.svc.cluster.local" in names
    assert "broker-2.kafka.example.com" in names
    service = found["Service", "kafka-ottla-outside-2"]["metadata"]
    assert service["annotations"]["external-dns.alpha.kubernetes.io/hostname"] == "broker-2.kafka.example.com"


def test_pods_have_few_rights(render: Render) -> None:
    for values in VALUES:
        for resource in yaml.safe_load_all(render(values)):
            spec = (resource or {}).get("spec", {}).get("template", {}).get("spec", {})
            for container in [*spec.get("containers", []), *spec.get("initContainers", [])]:
                assert spec["securityContext"]["runAsNonRoot"] is True
                assert container["securityContext"]["allowPrivilegeEscalation"] is False
                assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_a_misspelt_value_is_refused(render: Render) -> None:
    with pytest.raises(AssertionError, match="replica"):
        render(None, "--set", "pools.broker.replica=5")
    with pytest.raises(AssertionError, match="existing ensemble"):
        render(None, "--set", "zookeeper.enabled=false")
