"""One file, one `@register`: what a class says of itself is used everywhere; and kernels have one arrangement."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import hashstream as hs
from hashstream import pictures
from hashstream.hashers import FCOH_C, FCOH_S, kernels, registry


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_METHODS", hs.methods(variants=True))


@pytest.mark.usefixtures("own_registry")
def test_a_third_party_s_class_brings_its_colour_and_its_name() -> None:
    @hs.register
    class Mine(hs.LSH):
        colour = "#123456"
        marker = "H"

    assert list(hs.methods())[-1] == "Mine"
    assert (pictures.style("Mine").colour, pictures.style("Mine (paper)").marker) == ("#123456", "H")
    assert hs.register(Mine) is Mine
    with pytest.raises(ValueError, match="there is a method named Mine already"):
        hs.register(type("Mine", (hs.LSH,), {}))
    with pytest.raises(TypeError, match="a subclass of OnlineHasher, not 3"):
        hs.register(3)  # type: ignore[type-var]


def test_variants_are_known_by_name_but_not_listed() -> None:
    assert not {"FCOH_S", "FCOH_C"} & set(hs.methods())
    assert hs.methods(variants=True)["FCOH_S"] is FCOH_S
    assert {method.variant_of for method in (FCOH_S, FCOH_C)} == {"FCOH"}


@pytest.mark.parametrize(
    "name", [module.name for module in pkgutil.iter_modules(kernels.__path__) if module.name != "binding"]
)
def test_every_kernel_file_has_binding_twin_and_choice(name: str) -> None:
    module = importlib.import_module(f"hashstream.hashers.kernels.{name}")
    compiled = [part.removeprefix("compiled_") for part in vars(module) if part.startswith("compiled_")]
    assert compiled
    for part in compiled:
        signatures = [
            inspect.signature(getattr(module, prefix + part)) for prefix in ("compiled_", "twin_", "")
        ]
        assert signatures[0] == signatures[1] == signatures[2]
    bound = [vars(module)[one] for one in ("KERNEL", "SETTLE", "UNSURE") if one in vars(module)]
    assert bound
    assert all(set(one) <= {"f", "d"} for one in bound)
