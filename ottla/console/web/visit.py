"""A request as seen by page handlers: user, cluster and form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import parse_qsl

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.console.access.login import Session
from ottla.console.access.roles import Kind, Level, User
from ottla.console.cluster.site import Site
from ottla.console.cluster.snapshot import Snapshot
from ottla.console.health.problem import Problem
from ottla.http import HttpError, Request, Response

if TYPE_CHECKING:
    from ottla.console.web.app import App

_PLURALS: Mapping[Kind, str] = {
    "topic": "topics",
    "group": "groups",
    "schema": "schemas",
    "connector": "connectors",
    "sql": "SQL",
}

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page:
    """A page. `.json` returns `data`; the template sees it too, plus `more`."""

    template: str
    data: Mapping[str, Any]
    status: int = 200
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Visit:
    app: App
    request: Request
    user: User
    session: Session
    _site: Site | None = None
    fields: list[tuple[str, str]] = field(default_factory=list)
    wants_json: bool = False

    @property
    def site(self) -> Site:
        assert self._site is not None, "The route is not one of a cluster."
        return self._site

    @property
    def in_cluster(self) -> bool:
        return self._site is not None

    @property
    def params(self) -> dict[str, str]:
        return self.request.params

    @property
    def query(self) -> dict[str, str]:
        return self.request.query

    @property
    def address(self) -> str:
        return self.request.peer

    # Forms

    async def read_form(self) -> None:
        body = await self.request.body()
        try:
            self.fields = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=5000)
        except (UnicodeDecodeError, ValueError):
            raise HttpError(400, 400, "The form cannot be read.") from None

    @property
    def form(self) -> dict[str, str]:
        return dict(self.fields)

    def values(self, name: str) -> list[str]:
        return [value for each, value in self.fields if each == name]

    def needed(self, name: str) -> str:
        value = self.form.get(name, "").strip()
        if not value:
            raise HttpError(400, 400, f"The field '{name}' is missing.")
        return value

    # Rights

    def require(self, level: Level, topic: str | None = None) -> None:
        """Raises HttpError 403 unless the user has a level for a topic, or without one for the whole cluster."""
        if topic is not None:
            self.require_of("topic", level, topic)
        elif not self.user.may_everywhere(level):
            raise HttpError(403, 403, f"This needs the role {level.name.lower()}.")

    def require_of(self, kind: Kind, level: Level, name: str | None = None) -> None:
        """Raises HttpError 403 unless the user has a level for a name of a kind, or without one for any name."""
        if not self.user.may(level, kind, name):
            which = f" with {kind} '{name}'" if name is not None else f" for {_PLURALS[kind]}"
            raise HttpError(403, 403, f"This needs the role {level.name.lower()}{which}.")

    def can(self, level: str, name: str | None = None, kind: Kind = "topic") -> bool:
        """Return True if a template should show a form. Without a name it is about the whole cluster."""
        if self._site is not None and self._site.read_only and level != "viewer":
            return False
        wanted = Level[level.upper()]
        return self.user.may_everywhere(wanted) if name is None else self.user.may(wanted, kind, name)

    def can_somewhere(self, level: str, kind: Kind = "topic") -> bool:
        """Return True if the user has a level for at least one name of a kind, for templates."""
        read_only = self._site is not None and self._site.read_only and level != "viewer"
        return not read_only and self.user.may(Level[level.upper()], kind)

    def sees(self, topic: str) -> bool:
        return self.user.sees(topic)

    async def snapshot(self, *, renewed: bool = False) -> Snapshot:
        """Return the part of the cluster's snapshot that is visible to the user."""
        snapshots = self.site.snapshots
        whole = await (snapshots.renewed() if renewed else snapshots.current())
        return whole.seen_by(self.user)

    async def problems(self) -> list[Problem]:
        """Return the problems of the cluster that the user may see, worst first."""
        audit = await self.app.audit.check()
        return await self.app.observers[self.site.name].problems(self.user, self._told(audit))

    def known_problems(self) -> list[Problem]:
        if self._site is None or not self.user.roles:
            return []
        return self.app.observers[self.site.name].known_problems(
            self.user, self._told(self.app.audit.problem)
        )

    def _told(self, audit: str | None) -> str | None:
        return audit if self.user.may_everywhere(Level.ADMIN) else None

    # Responses

    def url(self, *parts: str) -> str:
        from ottla.console.web.rendering import part

        return "/".join(["/clusters", self.site.name, *map(part, parts)]).replace("//", "/")

    def redirect(self, where: str, sentence: str | None = None) -> Response:
        headers = {"Location": where}
        if sentence is not None:
            headers["Set-Cookie"] = self.app.sessions.flash(sentence)
        return Response(303, b"", None, headers)

    async def change(
        self,
        action: str,
        target: str,
        function: Callable[Concatenate[Cluster, P], T],
        *arguments: P.args,
        **options: P.kwargs,
    ) -> T:
        """Change the cluster, and write an audit log line for any outcome. Raises ClientError."""
        try:
            result = await self.site.calls.change(function, *arguments, **options)
        except ClientError as error:
            await self.log(action, target, f"failed: {error.message}")
            raise
        finally:
            self.site.snapshots.expire()
        await self.log(action, target, details=_details(arguments, options))
        return result

    async def log(
        self, action: str, target: str, outcome: str = "done", *, details: Mapping[str, Any] | None = None
    ) -> None:
        await self.app.audit.write(
            user=self.user.name,
            address=self.address,
            cluster=self._site.name if self._site is not None else "",
            action=action,
            target=target,
            outcome=outcome,
            details=details or {},
        )


def _details(arguments: tuple[object, ...], options: Mapping[str, object]) -> dict[str, Any]:
    """Return the plain arguments. Passwords come in objects, so none of them is logged."""
    shown = {str(index): each for index, each in enumerate(arguments) if _is_plain(each)}
    return shown | {name: each for name, each in options.items() if _is_plain(each)}


def _is_plain(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(_is_plain(each) for each in value.values())
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return all(_is_plain(each) for each in value)
    return value is None or isinstance(value, (str, int, float, bool))
