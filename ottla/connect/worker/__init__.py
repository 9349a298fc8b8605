"""A Connect worker: manages connectors together with other workers, and serves the REST API.

The layers from top to bottom:
1. `server`: creates a worker from its settings, with REST, and runs it until it is stopped.
2. `rest/`: the REST API. `validation/`: checks connector configs.
3. `herder`, `standalone`, `distributed/`: decide which connectors this worker runs, and process requests.
4. `local_connectors`: starts and stops connectors on the engine to match the desired state.
5. `config_store`, `status_store`: shared state in Kafka topics. `config_state`, `status_state` are pure.
"""
