"""Write a label of this pod's node to a file, which the broker reads as broker.rack."""

import json
import os
import ssl
import urllib.request

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def main() -> None:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    host = f"[{host}]" if ":" in host else host
    with open(f"{ACCOUNT}/token") as file:
        token = file.read().strip()
    url = f"https://{host}:{port}/api/v1/nodes/{os.environ['NODE_NAME']}"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    trusted = ssl.create_default_context(cafile=f"{ACCOUNT}/ca.crt")
    with urllib.request.urlopen(request, context=trusted, timeout=30) as answer:
        labels = json.load(answer)["metadata"].get("labels", {})
    label = os.environ["NODE_LABEL"]
    if label not in labels:
        raise SystemExit(
            f"The node {os.environ['NODE_NAME']} has no label {label}: add it, or set rack.nodeLabel."
        )
    with open(os.environ["RACK_FILE"], "w") as file:
        file.write(labels[label])


main()
