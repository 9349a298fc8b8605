"""Where a row's time goes inside Ottla: ``python -m bench.profile "one-record"``.

Starts ``ottla start`` under cProfile in a process of its own, runs the chosen rows on it, interrupts it,
and prints the functions that took most. The profiler watches the main thread, which is the event loop's;
it makes every call slower, so read the order and the shares, not the times.
"""

from __future__ import annotations

import argparse
import pstats
import shutil
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from bench.measuring.experiment import Scale
from bench.measuring.plan import chosen_experiments
from bench.peers.brokers import started_by

# Runs the command `ottla ARGUMENTS…` and writes the profile when it ends, however it ends.
UNDER_PROFILE = """
import cProfile, sys
from ottla.cli.main import main
target = sys.argv.pop(1)
sys.argv[0] = "ottla"
profiler = cProfile.Profile()
profiler.enable()
try:
    main()
finally:
    profiler.disable()
    profiler.dump_stats(target)
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__.splitlines()[0])
    parser.add_argument("row", nargs="+", help="rows whose name has this in it")
    parser.add_argument("--quick", action="store_true", help="little work per row")
    parser.add_argument("--top", type=int, default=40, help="how many functions to print")
    parser.add_argument("--sort", default="tottime", choices=["tottime", "cumtime", "ncalls"])
    parser.add_argument("--callers", metavar="FUNCTION", help="also print who calls this function")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="keep the profile for other viewers")
    options = parser.parse_args()
    console = Console()
    scale = Scale.quick() if options.quick else Scale()
    experiments = chosen_experiments(scale, options.row)
    if not experiments:
        console.print(f"No row is called like {', '.join(options.row)}; `python -m bench --list` shows them.")
        return 2
    with tempfile.TemporaryDirectory(prefix="ottla-profile-") as directory:
        target = Path(directory, "profile")
        contestant = started_by([sys.executable, "-c", UNDER_PROFILE, str(target)])
        try:
            for experiment in experiments:
                for name, value in experiment.measure(contestant, scale).items():
                    console.print(f"{name}: {value:,.3f} (under the profiler)", highlight=False)
        except RuntimeError as error:
            console.print(str(error).splitlines()[-1], markup=False, highlight=False)
        finally:
            contestant.close()
        if not target.exists():
            console.print("The broker ended without writing a profile.")
            return 1
        stats = pstats.Stats(str(target))
        stats.sort_stats(options.sort).print_stats(options.top)
        if options.callers:
            stats.print_callers(options.callers)
        if options.keep:
            shutil.copyfile(target, options.keep)
    return 0


if __name__ == "__main__":
    sys.exit(main())
