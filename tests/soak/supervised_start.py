"""`ottla start` with brokers that a soak can disturb, and that restart when they end.

    python -m tests.soak.supervised_start --secure --brokers 3 …

`DATA/broker-N.pid` has a broker's process id. While `DATA/broker-N.down` exists, the broker does not restart.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ottla.cli.commands.servers import local_cluster
from ottla.cli.main import main
from ottla.testing.tampering import Tampering


class SupervisedCluster(local_cluster.LocalCluster):
    def _launch(self, broker_id: int) -> int:
        file = self.data / f"broker-{broker_id}.tampering"
        Tampering(file, create=not file.exists()).close()
        start_child = local_cluster.start_child

        def tampered(command: list[str], *arguments: object, **options: object) -> object:
            at = command.index("ottla")
            command = [*command[:at], "ottla.testing.tampered_broker", str(file), *command[at + 1 :]]
            return start_child(command, *arguments, **options)  # type: ignore[arg-type]

        local_cluster.start_child = tampered  # type: ignore[assignment]
        try:
            begin = super()._launch(broker_id)
        finally:
            local_cluster.start_child = start_child
        (self.data / f"broker-{broker_id}.pid").write_text(str(self._brokers[broker_id].pid))
        return begin

    def ended(self) -> list[int]:
        for broker_id, process in self._brokers.items():
            if process.poll() is not None and not (self.data / f"broker-{broker_id}.down").exists():
                # The first users are stored, and their file is gone.
                if "--initial-users" in self._options:
                    at = self._options.index("--initial-users")
                    del self._options[at : at + 2]
                self._launch(broker_id)
        return []

    @property
    def is_alive(self) -> bool:
        return True


if __name__ == "__main__":
    local_cluster.LocalCluster = SupervisedCluster  # type: ignore[misc]
    sys.argv = [str(Path(sys.executable).with_name("ottla")), "start", *sys.argv[1:]]
    main()
