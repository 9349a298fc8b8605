"""The quickstarts of Datagen. Fields and types match Confluent's, so existing examples work."""

from __future__ import annotations

from typing import Any, NamedTuple


class Quickstart(NamedTuple):
    schema: dict[str, Any]
    key: str


def _field(name: str, type: str, **how: Any) -> dict[str, Any]:
    return {"name": name, "type": {"type": type, "arg.properties": how} if how else type}


def _range(name: str, type: str, least: float, below: float) -> dict[str, Any]:
    return _field(name, type, range={"min": least, "max": below})


def _count(name: str, type: str = "long", start: int = 0, step: int = 1) -> dict[str, Any]:
    return _field(name, type, iteration={"start": start, "step": step})


def _text(name: str, pattern: str) -> dict[str, Any]:
    return _field(name, "string", regex=pattern)


def _one_of(name: str, *options: Any, type: str = "string") -> dict[str, Any]:
    return _field(name, type, options=list(options))


def _record(name: str, *fields: dict[str, Any], namespace: str = "ksql") -> dict[str, Any]:
    return {"type": "record", "namespace": namespace, "name": name, "fields": list(fields)}


# Between February 2017 and February 2018.
_WHEN = (1487715775521, 1519273364600)
_USER = "User_[1-9]"
_USERS = (
    _range("registertime", "long", *_WHEN),
    _text("userid", _USER),
    _text("regionid", "Region_[1-9]"),
    _one_of("gender", "MALE", "FEMALE", "OTHER"),
)
_CITIES = ("Lisbon", "Oslo", "Porto", "Quito", "Riga", "Sofia", "Tunis")
_FIRST_NAMES = ("Abe", "Bea", "Cleo", "Dov", "Eva", "Finn", "Gil")
_LAST_NAMES = ("Adams", "Baker", "Castro", "Dietz", "Ek", "Fox", "Gomez")

QUICKSTARTS = {
    "users": Quickstart(_record("users", *_USERS), "userid"),
    "users_": Quickstart(
        _record(
            "users",
            *_USERS,
            {
                "name": "interests",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "string",
                        "arg.properties": {"options": ["Games", "Movies", "News", "Sport", "Travel"]},
                    },
                    "arg.properties": {"length": {"min": 2, "max": 3}},
                },
            },
            {
                "name": "contactinfo",
                "type": {
                    "type": "map",
                    "values": {"type": "string", "arg.properties": {"options": list(_CITIES)}},
                    "arg.properties": {
                        "length": 2,
                        "keys": {"options": ["city", "phone", "state", "zipcode"]},
                    },
                },
            },
        ),
        "userid",
    ),
    "pageviews": Quickstart(
        _record(
            "pageviews",
            _count("viewtime", start=1, step=10),
            _text("userid", _USER),
            _text("pageid", "Page_[1-9][0-9]?"),
        ),
        "viewtime",
    ),
    "orders": Quickstart(
        _record(
            "orders",
            _range("ordertime", "long", *_WHEN),
            _count("orderid", "int"),
            _text("itemid", "Item_[1-9][0-9]{0,2}"),
            _range("orderunits", "double", 0.1, 10.0),
            {
                "name": "address",
                "type": _record(
                    "address",
                    _text("city", "City_[1-9]{1,2}"),
                    _text("state", "State_[1-9]{1,2}"),
                    _range("zipcode", "long", 10000, 99999),
                ),
            },
        ),
        "orderid",
    ),
    "stock_trades": Quickstart(
        _record(
            "StockTrade",
            _one_of("side", "BUY", "SELL"),
            _range("quantity", "int", 1, 5000),
            _one_of("symbol", "ZBZX", "ZJZZT", "ZTEST", "ZVV", "ZVZZT", "ZWZZT", "ZXZZT"),
            _range("price", "int", 5, 1000),
            _one_of("account", "ABC123", "LMN456", "XYZ789"),
            _text("userid", _USER),
        ),
        "symbol",
    ),
    "ratings": Quickstart(
        _record(
            "ratings",
            _count("rating_id", start=1),
            _range("user_id", "int", 0, 20),
            _range("stars", "int", 1, 6),
            _range("route_id", "int", 1, 10000),
            _count("rating_time", start=1, step=12),
            _one_of("channel", "android", "ios", "web"),
            _one_of("message", "fine", "late again", "never again", "thank you all"),
        ),
        "rating_id",
    ),
    "clickstream": Quickstart(
        _record(
            "clickstream",
            _text("ip", "[12]?[0-9]{2}\\.[1-9][0-9]\\.[1-9][0-9]\\.[1-9]"),
            _range("userid", "int", 1, 40),
            _one_of("remote_user", "-"),
            _count("time", "string", start=1),
            _count("_time", start=1),
            _one_of(
                "request",
                "GET /images/logo.png HTTP/1.1",
                "GET /index.html HTTP/1.1",
                "GET /site/login HTTP/1.1",
            ),
            _one_of("status", "200", "302", "404", "405", "406", "407"),
            _one_of("bytes", "278", "1289", "2048", "4006", "4196"),
            _one_of("referrer", "-"),
            _one_of("agent", "Mozilla/5.0 (X11; Linux x86_64)", "Mozilla/5.0 (compatible; bot/2.1)"),
        ),
        "ip",
    ),
    "clickstream_users": Quickstart(
        _record(
            "clickstream_users",
            _count("user_id", "int", start=1),
            _text("username", "[a-z]{5,9}_[1-9][0-9]"),
            _range("registered_at", "long", *_WHEN),
            _one_of("first_name", *_FIRST_NAMES),
            _one_of("last_name", *_LAST_NAMES),
            _one_of("city", *_CITIES),
            _one_of("level", "Gold", "Platinum", "Silver"),
        ),
        "user_id",
    ),
    "clickstream_codes": Quickstart(
        _record(
            "clickstream_codes",
            _one_of("code", 200, 302, 404, 405, 406, 407, type="int"),
            _one_of("definition", "Method not allowed", "Page not found", "Redirect", "Successful"),
        ),
        "code",
    ),
    "inventory": Quickstart(
        _record(
            "inventory",
            _count("id"),
            _range("quantity", "int", -100, 100),
            _range("productid", "long", 10000000001, 10000000016),
        ),
        "id",
    ),
    "product": Quickstart(
        _record(
            "product",
            _count("id"),
            _text("name", "[A-Z][a-z]{4,8}"),
            _text("description", "[a-z]{3,8} [a-z]{3,8} [a-z]{3,8}"),
            _range("price", "double", 1.0, 100.0),
        ),
        "id",
    ),
    "purchases": Quickstart(
        _record(
            "purchase",
            _count("id"),
            _one_of("item_type", "bread", "coffee", "fruit", "tea"),
            _range("quantity", "int", 1, 6),
            _range("price_per_unit", "double", 0.5, 20.0),
        ),
        "id",
    ),
    "transactions": Quickstart(
        _record(
            "transactions",
            _count("transaction_id", start=1),
            _range("card_id", "long", 1, 24),
            _text("user_id", _USER),
            _count("purchase_id"),
            _range("store_id", "int", 1, 7),
            namespace="datagen.example",
        ),
        "transaction_id",
    ),
    "stores": Quickstart(
        _record(
            "stores",
            _field("store_id", "int", iteration={"start": 1, "restart": 7}),
            _one_of("city", *_CITIES),
            _text("state", "State_[1-9]"),
            namespace="datagen.example",
        ),
        "store_id",
    ),
    "credit_cards": Quickstart(
        _record(
            "credit_cards",
            _field("card_id", "long", iteration={"start": 1, "restart": 24}),
            _text("card_number", "[1-9][0-9]{3}-[0-9]{4}-[0-9]{4}-[0-9]{4}"),
            _text("cvv", "[0-9]{3}"),
            _text("expiration_date", "(0[1-9]|1[0-2])/2[5-9]"),
            namespace="datagen.example",
        ),
        "card_id",
    ),
}
