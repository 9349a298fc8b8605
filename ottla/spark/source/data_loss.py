"""Handling of records deleted before they were read: an error or a warning, depending on failOnDataLoss."""

from __future__ import annotations

import logging

from ottla.client.errors import ClientError

log = logging.getLogger("ottla.spark")


class DataLoss(ClientError):
    pass


def report(what: str, *, fail: bool) -> None:
    """Raise or log a data loss. `what` is a sentence without its full stop."""
    if fail:
        raise DataLoss(
            f"{what}. Some data may have been missed; with failOnDataLoss=false the query continues with the "
            "remaining records."
        )
    log.warning("%s. Some data may have been missed.", what)
