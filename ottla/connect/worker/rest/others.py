"""The other endpoints: the worker itself, its plugins and its loggers."""

from __future__ import annotations

from functools import partial

from ottla import KAFKA_VERSION, __version__
from ottla.connect.plugins import PluginKind, available
from ottla.connect.worker.errors import RequestError, bad_request
from ottla.connect.worker.herder import Herder
from ottla.connect.worker.loggers import UnknownLevel, UnknownLogger
from ottla.connect.worker.rest.carrying_out import CarryingOut
from ottla.connect.worker.rest.requests import flag, http_error, read_config, read_json, read_object
from ottla.connect.worker.validation.connector_configs import ConfigInfos, plugin_definitions
from ottla.http import HttpError, Request, Response, json_response


class Others:
    def __init__(self, herder: Herder, carrying_out: CarryingOut) -> None:
        self._herder = herder
        self._do = carrying_out.answer

    def root(self, _request: Request) -> Response:
        # Clients such as kcctl avoid stop, offsets and task restarts with an older Connect version.
        return json_response(
            {
                "version": KAFKA_VERSION,
                "commit": f"ottla-{__version__}",
                "kafka_cluster_id": self._herder.cluster_id,
            }
        )

    def health(self, _request: Request) -> Response:
        if self._herder.is_ready:
            message = "Worker has completed startup and is ready to handle requests."
            return json_response({"status": "healthy", "message": message})
        message = "Worker is still starting up."
        return json_response({"status": "starting", "message": message}, 503)

    # Plugins

    async def list_plugins(self, request: Request) -> Response:
        only = flag(request, "connectorsOnly", default=True)
        kinds = (PluginKind.CONNECTOR,) if only else tuple(PluginKind)

        def listed() -> list[dict[str, str]]:
            return [
                {"class": each.class_name, "type": each.type, "version": each.version}
                for each in available(kinds)
            ]

        return await self._do(request, listed, json_response)

    async def get_plugin_config(self, request: Request) -> Response:
        return await self._do(request, partial(plugin_definitions, request.params["plugin"]), json_response)

    async def validate(self, request: Request) -> Response:
        plugin = request.params["plugin"]
        try:
            config = read_config(read_json(await request.body()))
            given = config.get("connector.class")
            if given is not None and not _simple(given).endswith(_simple(plugin)):
                raise bad_request(f"Included connector type {given} does not match request type {plugin}")
        except RequestError as error:
            raise http_error(error) from None

        def respond(infos: ConfigInfos) -> Response:
            return json_response(infos.to_json())

        return await self._do(request, partial(self._herder.validate, config), respond)

    # Loggers

    def list_loggers(self, _request: Request) -> Response:
        return json_response(self._herder.loggers.all())

    def get_logger(self, request: Request) -> Response:
        name = request.params["logger"]
        try:
            return json_response(self._herder.loggers.get(name))
        except UnknownLogger:
            raise HttpError(404, 404, f"Logger {name} not found.") from None

    async def set_logger(self, request: Request) -> Response:
        name = request.params["logger"]
        try:
            level = read_object(await request.body()).get("level")
        except RequestError as error:
            raise http_error(error) from None
        if not level:
            raise HttpError(400, 400, "Desired 'level' parameter was not specified in request.")
        everywhere = request.query.get("scope", "worker").lower() == "cluster"

        def change() -> list[str]:
            try:
                return self._herder.set_logger(name, str(level), everywhere=everywhere)
            except UnknownLevel:
                raise RequestError(404, f"invalid log level '{level}'.") from None

        def respond(changed: list[str]) -> Response:
            return Response(204, b"", None) if everywhere else json_response(changed)

        return await self._do(request, change, respond)


def _simple(name: str) -> str:
    """Shorten a connector name for comparison like Kafka: without the package and the suffix Connector."""
    return name.rsplit(".", 1)[-1].removesuffix("Connector")
