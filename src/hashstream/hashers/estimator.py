"""The interface of scikit-learn's estimators, without importing scikit-learn before it is needed.

Importing scikit-learn takes far longer than everything else that a process needs to open a table and search it. An
`Estimator` has what pipelines, `clone` and searches for parameters use: parameters, tags, `set_output`, the notebook
view. It is not an instance of `sklearn.base.BaseEstimator`; scikit-learn itself asks for that only when it prints.
"""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any, Self

import numpy as np

__all__ = ["Estimator", "Transformer", "check_fitted", "parameter_names"]

LATE = frozenset(
    {"_doc_link_module", "_doc_link_template", "_doc_link_url_param_generator",
     "_get_class_level_metadata_request_values", "_get_doc_link", "_get_fitted_attr_html", "_get_metadata_request",
     "_get_params_html", "_html_repr", "_repr_html_", "_repr_html_inner", "_repr_mimebundle_", "get_metadata_routing"}
)  # fmt: skip
"""Attributes that are taken from scikit-learn's `BaseEstimator`, by whoever has imported it already."""
LONGEST = 700


class Estimator:
    """Parameters by name, as scikit-learn reads and sets them: those of `__init__`, stored untouched."""

    if TYPE_CHECKING:  # every class has parameters of its own

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with `deep`, also those of parameters that have some, as name__parameter."""
        found: dict[str, Any] = {}
        for name in parameter_names(type(self)):
            value = found[name] = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found.update({f"{name}__{inner}": one for inner, one in value.get_params().items()})
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, also as name__parameter; ValueError for a name that is none."""
        nested: dict[str, dict[str, Any]] = {}
        names = parameter_names(type(self))
        for key in params:
            if key.partition("__")[0] not in names:
                raise ValueError(
                    f"Invalid parameter {key!r} for estimator {self}. Valid parameters are: {list(names)!r}."
                )
        for key, value in params.items():
            name, inner, rest = key.partition("__")
            if inner:
                nested.setdefault(name, {})[rest] = value
            else:
                setattr(self, name, value)
        for name, inside in nested.items():
            getattr(self, name).set_params(**inside)
        return self

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return list(parameter_names(cls))

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        with np.printoptions(threshold=10, edgeitems=2):
            given = {name: repr(value) for name, value in self.get_params(deep=False).items()}
            changed = [
                f"{name}={text}" for name, text in given.items() if text != repr(defaults[name].default)
            ]
        text = ", ".join(changed)
        return f"{type(self).__name__}({text if len(text) <= LONGEST else text[:LONGEST] + '...'})"

    def __getattr__(self, name: str) -> Any:
        if name in LATE:
            from sklearn.base import BaseEstimator

            found = inspect.getattr_static(BaseEstimator, name)
            return found.__get__(self, type(self)) if hasattr(found, "__get__") else found
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))


class Transformer(Estimator):
    """An estimator with `fit` and `transform`, and `_n_features_out` columns in what `transform` returns."""

    _sklearn_auto_wrap_output_keys = frozenset({"transform"})

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """`fit(X, y)`, then `transform(X)`."""
        fitted: Any = self
        fitted = fitted.fit(X, **fit_params) if y is None else fitted.fit(X, y, **fit_params)
        return fitted.transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The name of the class in lower case and a number, for each column that `transform` returns."""
        from sklearn.utils.validation import _generate_get_feature_names_out

        check_fitted(self)
        names: np.ndarray = _generate_get_feature_names_out(
            self, self._n_features_out, input_features=input_features
        )
        return names

    def set_output(self, *, transform: str | None = None) -> Self:
        """Set the container that `transform` returns: "default", "pandas" or "polars"; None leaves it as it is."""
        from sklearn.utils._set_output import _SetOutputMixin

        _SetOutputMixin.set_output(self, transform=transform)
        return self

    def _contained(self, found: np.ndarray, X: Any) -> Any:
        """The result of `transform`, in the container that was asked for; nobody can have without scikit-learn."""
        if "sklearn" not in sys.modules:
            return found
        from sklearn.utils._set_output import _wrap_data_with_container

        return _wrap_data_with_container("transform", found, X, self)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags()
        return tags


_names: dict[type, tuple[str, ...]] = {}  # as reading a signature takes longer than encoding a row


def parameter_names(method: type) -> tuple[str, ...]:
    """Names of a method's parameters, sorted."""
    if method not in _names:
        parameters = inspect.signature(method).parameters.values()
        _names[method] = tuple(
            sorted(p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL))
        )
    return _names[method]


def check_fitted(estimator: Any) -> None:
    """Raise scikit-learn's NotFittedError unless the estimator has learned or has started."""
    if not estimator.__sklearn_is_fitted__():
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(
            f"This {type(estimator).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments "
            "before using this estimator."
        )
