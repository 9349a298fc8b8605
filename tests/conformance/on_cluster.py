"""Run the conformance suite against a cluster of three brokers: python -m tests.conformance.on_cluster [PYTEST OPTIONS]

Without options it runs the cases of the clients from PyPI.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ottla.testing import Cluster

from .settings import QUICK

HERE = Path(__file__).parent
DEFAULT = ["-m", "not peers", "-n", "2"]


def main(options: list[str]) -> int:
    with Cluster(3, config=QUICK) as cluster:
        command = [sys.executable, "-m", "pytest", str(HERE), "--bootstrap", cluster.bootstrap_servers]
        code = subprocess.run([*command, *(options or DEFAULT)], check=False).returncode
        for broker_id in cluster.ports:
            words = cluster.log(broker_id).read_text(errors="replace").strip()
            if words:
                print(f"Broker {broker_id} said:\n{words}", file=sys.stderr)
        return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
