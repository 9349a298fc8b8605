"""One table: megabytes a second from cluster to cluster, beside MirrorMaker 4.3.

make bench-connect
.venv/bin/python -m bench.connect --quick
"""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table

from bench.connect.mirroring import measure


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="little work: shows that it works, no more")
    arguments = parser.parse_args()
    table = Table("", "unit", "Ottla", "Apache Kafka", "ratio", "target")
    for row in measure(quick=arguments.quick):
        theirs = "-" if row.apache is None else f"{row.apache:,.0f}"
        ratio = "-" if row.apache is None else f"{row.ottla / row.apache:.2f}"
        table.add_row(row.name, row.unit, f"{row.ottla:,.0f}", theirs, ratio, f"≥ {row.target:g}")
    Console(width=120).print(table)


main()
