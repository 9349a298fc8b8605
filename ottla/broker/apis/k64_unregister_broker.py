"""UnregisterBroker, key 64: remove a broker that is gone permanently.

Behaviour
- A registration ends with the broker's session, so usually there is none to remove. The dynamic configs of the broker
  and its list of offline replicas outlive it; this request removes them.
- An unknown broker is BROKER_ID_NOT_REGISTERED, with Kafka's message.
- A live broker is INVALID_REQUEST. Kafka removes a live broker from the cluster until it restarts; here it would
  register again immediately.
- Replicas stay assigned to the broker, as in Kafka: `kafka-reassign-partitions` moves them.

Version notes
- 0 is the only version, flexible.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.cluster.controller.failure_detection import Presence, probe
from ottla.cluster.membership import forget_broker
from ottla.metadata.stores.store import StoreError
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.cluster import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.security.acls import ALTER_CLUSTER


async def handle(
    broker: Broker, request: UnregisterBrokerRequest, context: RequestContext
) -> UnregisterBrokerResponse:
    context.require(ALTER_CLUSTER)
    broker_id = request.broker_id
    try:
        if await _is_running(broker, broker_id):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Broker {broker_id} is running: stop it before it is unregistered.",
            )
        if not await forget_broker(broker.store, broker_id):
            raise KafkaError(
                ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered"
            )
    except StoreError as error:
        return UnregisterBrokerResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message=str(error))
    except KafkaError as error:
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)
    return UnregisterBrokerResponse()


async def _is_running(broker: Broker, broker_id: int) -> bool:
    if broker_id == broker.node_id:
        return True
    if broker_id not in broker.image.brokers:
        return False
    # The broker is registered, but its session may not have expired yet.
    for address in broker.dialer.addresses({broker_id}).values():
        presence, _ = await probe(broker.dialer, address)
        return presence is not Presence.GONE
    return True
