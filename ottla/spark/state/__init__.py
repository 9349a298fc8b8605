"""State of streaming queries: for each partition of each operator a map from bytes to bytes, with a version.

A micro-batch opens the state that the batch before it left, changes it, and commits it under its own number. A repeated
batch begins from the same state as the first time.

The files under the query's checkpoint are authoritative (`history.py`): the changes of each batch, and a snapshot now
and then. Tasks look keys up in a copy on their machine (`local_copy.py`). They rebuild the copy from the files when it
is missing, damaged or of another version. Nothing here knows Spark. docs/state-format.md describes the files.
"""

from ottla.spark.state.keyed_state import KeyedState, open_state
from ottla.spark.state.namespaces import Namespace, State
from ottla.spark.state.places import StateError, StatePlace, fixed_partitions

__all__ = ["KeyedState", "Namespace", "State", "StateError", "StatePlace", "fixed_partitions", "open_state"]
