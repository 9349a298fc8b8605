"""Checkpoints on a cluster: a directory that executors do not see is refused with one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from ottla.spark.session import session
from ottla.spark.shared_storage import NotShared, check_shared
from ottla.spark.standalone import StandaloneCluster

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


def test_directories_of_a_cluster_are_seen_by_all_nodes_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with StandaloneCluster(workers=2) as cluster:
        spark = session("shared", master=cluster.url)
        try:
            check_shared(spark, str(tmp_path / "seen"))
            check_shared(spark, (tmp_path / "seen too").as_uri())
            assert list((tmp_path / "seen").iterdir()) == []
            # This path leads each process to a directory of its own, as on several machines.
            with pytest.raises(
                NotShared, match=r"/own is not shared: \S+ does not see it. Use storage that every"
            ):
                check_shared(spark, "/proc/self/cwd/own")
            with pytest.raises(NotShared, match="/proc/none cannot be written: No such file"):
                check_shared(spark, "/proc/none")
            with pytest.raises(NotShared, match=r"abc://x/y cannot be written: .*abc.*Add the module for it"):
                check_shared(spark, "abc://x/y")
            check_shared(spark, (tmp_path / "jvm").as_uri())
        finally:
            spark.stop()
