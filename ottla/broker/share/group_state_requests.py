"""What a group coordinator asks the share coordinators for its share groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.broker.share.state_access import ShareStates
from ottla.broker.share.state_handlers import DELETE, INITIALIZE
from ottla.coordinator.share.state_records import ShareKey
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.share_state import DeleteStatePartitionData, InitializeStatePartitionData


class ShareGroupStates:
    """Raises KafkaError where one of several fails; the others may have happened, and all can be asked again."""

    def __init__(self, states: ShareStates) -> None:
        self._states = states

    async def initialize(self, state_epoch: int, starts: Mapping[ShareKey, int]) -> None:
        asked = {
            key: InitializeStatePartitionData(state_epoch=state_epoch, start_offset=start)
            for key, start in starts.items()
        }
        _raise_first((await self._states.ask_all(INITIALIZE, asked)).values())

    async def delete(self, keys: Iterable[ShareKey]) -> None:
        asked = {key: DeleteStatePartitionData() for key in keys}
        _raise_first((await self._states.ask_all(DELETE, asked)).values())


def _raise_first(results: Iterable[object]) -> None:
    for result in results:
        if isinstance(result, KafkaError):
            raise result
