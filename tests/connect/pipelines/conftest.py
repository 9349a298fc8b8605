from tests.connect.runtime.conftest import new_worker, offset_topic, worker

__all__ = ["new_worker", "offset_topic", "worker"]
