"""State of streaming queries: for each partition of each operator a map from bytes to bytes, with a version.

A micro-batch opens the state that the batch before it left, changes it, and commits it under its own number. A batch
that is repeated begins from the same state as the first time.

What counts is under the query's checkpoint (`history.py`): the changes of each batch, and a snapshot now and then. The
copy on this machine (`local_copy.py`), in which keys are looked up, is made of that whenever it is missing, damaged or
of another version. Nothing here knows Spark.
"""

from ottla.spark.state.keyed_state import KeyedState, open_state
from ottla.spark.state.namespaces import Namespace, State
from ottla.spark.state.places import StateError, StatePlace, fixed_partitions

__all__ = ["KeyedState", "Namespace", "State", "StateError", "StatePlace", "fixed_partitions", "open_state"]
