"""The container image is built by buildah on Debian's Python and runs without root on a read-only file system."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from ottla.monitoring.metrics.probe import probe
from ottla.testing.ports import free_ports
from tests.deploy.conftest import ROOT

pytestmark = [
    pytest.mark.deploy,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(os.geteuid() != 0, reason="root builds the image and lays out its file system"),
]

_USER = 10001
_START = """
set -e
mount --bind "$1" "$1"
mount --bind "$2" "$1/var/lib/ottla"
mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"
mount -t proc proc "$1/proc"
mount --bind /dev "$1/dev"
mount -o remount,bind,ro "$1"
root=$1
shift 2
exec chroot --userspec=10001:10001 "$root" /usr/bin/env -i "$@"
"""


@pytest.fixture(scope="module")
def rootfs(tool: Callable[[str], str], tools: Path) -> Iterator[Path]:
    """The file system of the image."""
    buildah = [tool("buildah"), "--storage-driver", "vfs"]

    def run(*command: str | Path) -> str:
        done = subprocess.run([*buildah, *map(str, command)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout.strip()

    base = tools / "rootfs"
    if not (base / "usr" / "bin" / "python3").exists():
        pytest.skip("there is no base image: make test-deploy gets it")
    container = run("from", "scratch")
    run("add", "-q", container, base, "/")
    run("commit", "-q", container, "localhost/ottla-test-base")
    run("rm", container)
    run(
        "bud", "--isolation", "chroot", "--format", "docker", "--layers", "--target", "broker",
        "--build-arg", "BASE=localhost/ottla-test-base", "--volume", "/etc/ssl/certs:/etc/ssl/certs:ro",
        "-f", ROOT / "deploy" / "container" / "Containerfile", "-t", "localhost/ottla-test", ROOT,
    )  # fmt: skip
    container = run("from", "localhost/ottla-test")
    try:
        yield Path(run("mount", container))
    finally:
        run("rm", container)


@contextmanager
def running(rootfs: Path, data: Path, command: list[str], **environment: object) -> Iterator[int]:
    """Run a command of the image in its file system; yield the id of tini's process."""
    variables = [f"{name}={value}" for name, value in environment.items()]
    process = subprocess.Popen(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "sh", "-c", _START, "sh",
         rootfs, data, "PATH=/opt/ottla/bin:/usr/bin:/bin", "HOME=/tmp", "PYTHONDONTWRITEBYTECODE=1",
         "KAFKA_LOG_DIRS=/var/lib/ottla", *variables, "tini", "--", *command],
    )  # fmt: skip
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        deadline = time.monotonic() + 10
        while not (found := children.read_text().split()) and time.monotonic() < deadline:
            time.sleep(0.005)
        yield int(found[0])
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def cpu_seconds(tini: int) -> float:
    """Return the CPU time of the only process that tini has started."""
    [child] = Path(f"/proc/{tini}/task/{tini}/children").read_text().split()
    fields = Path(f"/proc/{child}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_broker_starts_soon_without_root_on_a_read_only_file_system(rootfs: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    os.chown(data, _USER, _USER)
    tmp_path.chmod(0o755)
    starts = []
    for _ in range(3):
        port, metrics = free_ports(2)
        began = time.monotonic()
        settings = {"KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}", "OTTLA_METRICS_PORT": metrics}
        with running(rootfs, data, ["ottla", "start", "--env"], **settings) as tini:
            url = f"http://127.0.0.1:{metrics}/readyz"
            while not probe(url)[0]:
                assert time.monotonic() < began + 60
                time.sleep(0.01)
            # A busy machine takes longer, but not more work.
            starts.append(min(time.monotonic() - began, cpu_seconds(tini)))
            status = Path(f"/proc/{tini}/status").read_text()
            assert f"Uid:\t{_USER}\t{_USER}" in status
            assert httpx.get(url).json()["broker"] == 0
            health = subprocess.run(
                ["nsenter", "-t", str(tini), "-m", "-r", "/opt/ottla/bin/python", "-m",
                 "ottla.monitoring.metrics.probe", url],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert health.returncode == 0, health.stderr
            os.kill(tini, signal.SIGTERM)
            deadline = time.monotonic() + 30
            while Path(f"/proc/{tini}").exists() and time.monotonic() < deadline:
                time.sleep(0.02)
    print(f"\nfrom start to /readyz: {min(starts):.2f} s")
    assert min(starts) < 1
    assert (data / "meta.properties").stat().st_uid == _USER
    assert not list(data.glob("*.corrupt"))


def test_the_image_has_no_compiler_no_pip_and_no_sources(rootfs: Path) -> None:
    assert not (rootfs / "opt" / "ottla" / "bin" / "pip").exists()
    assert not (rootfs / "src").exists()
    [packages] = (rootfs / "opt" / "ottla" / "lib").glob("python3*/site-packages")
    assert (packages / "ottla" / "__pycache__").is_dir()
    assert not (packages / "pyspark").exists()
