"""State of streaming queries: a versioned map from bytes to bytes for each partition of each operator.

A micro-batch opens the state of the previous batch, changes it, and commits it under its own number. A repeated batch
starts from the same state as the first time.

The files under the query's checkpoint are authoritative (`history.py`): the changes of each batch, and occasional
snapshots. Tasks look keys up in a local copy (`local_copy.py`). They rebuild the copy from the files when it is
missing, damaged or of another version. This package does not depend on Spark.
docs/reference/state-format.md describes the files.
"""

from ottla.spark.state.keyed_state import KeyedState, open_state
from ottla.spark.state.namespaces import Namespace, State
from ottla.spark.state.places import StateError, StatePlace, fixed_partitions

__all__ = ["KeyedState", "Namespace", "State", "StateError", "StatePlace", "fixed_partitions", "open_state"]
