"""Expressions in ksqlDB's messages, with each column qualified by its source."""

from __future__ import annotations

from sqlglot import exp

from ottla.sql.parsing.dialect import identifier_name
from ottla.sql.planning.scope import Scope


def written(tree: exp.Expr, scope: Scope) -> str:
    def qualified(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        names = [identifier_name(part) for part in node.parts]
        if not (len(names) > 1 and names[0] in scope.sources):
            owners = [alias for alias, source in scope.sources.items() if source.has(names[0])]
            names = [*owners[:1], *names]
        return exp.Var(this=".".join(names[:2]) + "".join(f"->{name}" for name in names[2:]))

    return str(tree.copy().transform(qualified).sql())
