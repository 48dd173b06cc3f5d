"""Errors of this library."""

from __future__ import annotations

__all__ = ["DivergenceError", "FormatError", "UnknownMethod"]


class DivergenceError(ArithmeticError):
    """A learning step would have left a non-finite or exploding model; the model is as it was before the call."""


class FormatError(ValueError):
    """A file is not a model that this version can read: unknown format, truncated, or altered."""


class UnknownMethod(FormatError):
    """A file is a model of a method, or with a feature map, that is not registered here."""
