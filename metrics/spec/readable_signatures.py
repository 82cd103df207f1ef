"""Signatures of settings as ``help()`` shows them: types as they are declared, without their checks."""

from __future__ import annotations

import ast
from dataclasses import MISSING, Field, fields
from inspect import Parameter, Signature
from typing import Any


class Written(str):
    """A piece of code that prints as itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class ReadableSignature:
    """The attribute ``__signature__`` of a class of settings, made when it is asked for."""

    def __get__(self, instance: object, owner: type) -> Signature:
        """The signature of the constructor of `owner`."""
        parameters = [_parameter(setting) for setting in fields(owner) if setting.init]
        return Signature(sorted(parameters, key=lambda parameter: parameter.kind))


def _parameter(setting: Field[Any]) -> Parameter:
    """A setting as a parameter."""
    default = Parameter.empty if setting.default is MISSING else setting.default
    if setting.default_factory is not MISSING:
        default = Written("...")
    kind = Parameter.KEYWORD_ONLY if setting.kw_only else Parameter.POSITIONAL_OR_KEYWORD
    return Parameter(setting.name, kind, default=default, annotation=without_checks(setting.type))


def without_checks(annotation: Any) -> Any:
    """The type in an annotation, without what is checked of its values.

    >>> without_checks("Annotated[int, Field(ge=1)] | None")
    int | None
    """
    if not isinstance(annotation, str):
        return (
            getattr(annotation, "__origin__", annotation) if _is_checked(annotation) else annotation
        )
    return Written(ast.unparse(_WithoutChecks().visit(ast.parse(annotation, mode="eval"))))


def _is_checked(annotation: Any) -> bool:
    return hasattr(annotation, "__metadata__")


class _WithoutChecks(ast.NodeTransformer):
    """Replaces ``Annotated[T, ...]`` by ``T``."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """A type with parameters."""
        if isinstance(node.value, ast.Name) and node.value.id == "Annotated":
            first: ast.AST = next(ast.iter_child_nodes(node.slice))
            return self.visit(first)  # type: ignore[no-any-return]
        return self.generic_visit(node)
