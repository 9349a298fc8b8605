"""Units of systemd, settings and users: the files of an installation, as Debian lays them out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

USER = "ottla"
CONFIG = "/etc/ottla"
_PACKAGED_UNITS = "/usr/lib/systemd/system"
_LOCAL_UNITS = "/etc/systemd/system"

# Units can reach their own directories and the network, and nothing else. Compiled code for compaction and Java write
# machine code at run time, so MemoryDenyWriteExecute is not possible.
_HARDENING = """\
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
LockPersonality=yes
PrivateDevices=yes
PrivateTmp=yes
PrivateUsers=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProtectSystem=strict
RemoveIPC=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
SystemCallFilter=@system-service
SystemCallFilter=~@privileged
UMask=0027
"""

_UNIT = """\
[Unit]
Description={description}
Documentation=https://kafka.apache.org/documentation/
After=network-online.target{after}
Wants=network-online.target

[Service]
Type={kind}
User={user}
Group={user}
EnvironmentFile=-{config}/ottla.env
ExecStart={command}
WorkingDirectory=/var/lib/{state}
StateDirectory={state}
StateDirectoryMode=0750
ConfigurationDirectory=ottla
ConfigurationDirectoryMode=0755
Restart=on-failure
RestartSec=2
TimeoutStartSec={start_seconds}
# Longer than ottla.shutdown.timeout.ms, so that a broker hands its partitions over.
TimeoutStopSec=90
KillMode=mixed
LimitNOFILE=1048576
{hardening}
[Install]
WantedBy=multi-user.target
"""

_SERVER_PROPERTIES = """\
# Settings of the broker, with Kafka's names. `ottla config` explains them.
listeners=PLAINTEXT://127.0.0.1:9092
log.dirs=/var/lib/ottla
# /livez, /readyz and /metrics
metrics.port=9404
# A member of a cluster needs:
#broker.id=1
#listeners=PLAINTEXT://0.0.0.0:9092
#advertised.listeners=PLAINTEXT://broker-1.example.com:9092
#zookeeper.connect=zk-1:2181,zk-2:2181,zk-3:2181/ottla
"""

_ENVIRONMENT = """\
# Variables of all units of Ottla.
OTTLA_BOOTSTRAP_SERVER=localhost:9092
#OTTLA_LOG_FORMAT=json
"""

_SYSUSERS = f'u {USER} - "Ottla" /var/lib/ottla\n'


@dataclass(frozen=True, slots=True)
class InstalledFile:
    path: str
    text: str
    mode: int = 0o644
    # A file of the operator stays as it is.
    is_setting: bool = False


def files(ottla: Path, *, packaged: bool) -> list[InstalledFile]:
    """Return the files; `packaged` places units where packages do."""
    directory = _PACKAGED_UNITS if packaged else _LOCAL_UNITS
    units = [
        InstalledFile(f"{directory}/{name}.service", unit(ottla, name)) for name in (*_BROKERS, *_SERVICES)
    ]
    return [
        InstalledFile(f"{CONFIG}/server.properties", _SERVER_PROPERTIES, 0o640, is_setting=True),
        InstalledFile(f"{CONFIG}/ottla.env", _ENVIRONMENT, 0o640, is_setting=True),
        InstalledFile("/usr/lib/sysusers.d/ottla.conf", _SYSUSERS),
        *units,
    ]


# Unit → description, arguments, directory below /var/lib.
_BROKERS = {
    "ottla": ("Ottla broker", f"start --quiet --log-level info --config {CONFIG}/server.properties", "ottla"),
    "ottla@": (
        "Ottla broker %i",
        f"start --quiet --log-level info --config {CONFIG}/broker-%i.properties",
        "ottla-%i",
    ),
}
_SERVICES = {
    "ottla-registry": ("Ottla schema registry", "registry start --quiet", "ottla-registry"),
    "ottla-rest": ("Ottla REST proxy", "rest start --quiet", "ottla-rest"),
    "ottla-connect": ("Ottla Connect worker", "connect start --quiet", "ottla-connect"),
    "ottla-console": ("Ottla console", "console", "ottla-console"),
}


def unit(ottla: Path, name: str) -> str:
    is_broker = name in _BROKERS
    description, arguments, state = (_BROKERS if is_broker else _SERVICES)[name]
    return _UNIT.format(
        description=description,
        after="" if is_broker else " ottla.service",
        # A broker says when it is ready, after the recovery of its logs.
        kind="notify" if is_broker else "exec",
        start_seconds="30min" if is_broker else "2min",
        user=USER,
        config=CONFIG,
        command=f"{ottla} {arguments}",
        state=state,
        hardening=_HARDENING,
    )
