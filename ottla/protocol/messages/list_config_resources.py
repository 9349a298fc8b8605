"""ListConfigResources, key 74."""

from __future__ import annotations

from ottla.protocol.codec import (
    Request,
    Response,
    Struct,
    array,
    int8,
    int16,
    int32,
    string,
)


class ListConfigResourcesRequest(Request, key=74, versions="0-1", flexible="0+"):
    resource_types: list[int] = array(int8, "1+")


class ConfigResource(Struct):
    resource_name: str = string()
    resource_type: int = int8("1+", default=16)


class ListConfigResourcesResponse(Response, key=74, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)
