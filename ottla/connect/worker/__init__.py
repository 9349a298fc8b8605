"""A worker: which connectors there are, who runs them, how they are, and the REST API that says so.

From top to bottom:
1. `server`: a worker from its settings, with REST, until it is stopped.
2. `rest/`: the REST API; `validation/`: what is wrong with a config.
3. `herder`, `standalone`, `distributed/`: which connectors this worker runs, and the requests that change it.
4. `local_connectors`: starts and stops them on the engine, until what runs is what should.
5. `config_store`, `status_store`: what all workers know, in Kafka's topics; `config_state`, `status_state` are pure.
"""
