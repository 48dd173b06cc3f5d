"""cluster.json with values that it cannot have: one error that names the file and the value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.scale.local_engine import LocalEngine

from hashstream import LSH
from hashstream.scale import Cluster, ClusterError
from hashstream.scale.config import Config

GOOD: dict[str, Any] = json.loads(
    """{"id": "0123456789ab", "shards": 2, "fields": {"price": "float"}, "nodes": ["a", "b"], "publish_every": 100,
    "settings": {"policy": "lazy", "durability": "fast"}, "rule": "", "created": true, "format": 2,
    "snapshot": "", "source": "0123456789ab"}"""
)
GOOD["rule"] = Config("x", 1).rule


def write(folder: Path, stored: Any) -> None:
    text = stored if isinstance(stored, (str, bytes)) else json.dumps(stored)
    (folder / "cluster.json").write_bytes(text if isinstance(text, bytes) else text.encode())


def test_good_settings_are_read(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    assert Config.read(tmp_path).nodes == ("a", "b")


def test_another_format_is_refused(tmp_path: Path) -> None:
    for number in (1, 3, "2", None):
        write(tmp_path, GOOD | {"format": number})
        with pytest.raises(ClusterError, match="has format"):
            Config.read(tmp_path)


ODD: list[tuple[str, Any, str]] = [
    *(("shards", value, "shards must be") for value in ("two", None, [2], -1, 0, 2.0, True, 10**9, {"a": 1})),
    *(("publish_every", value, "publish_every must be") for value in ("x", None, 0, -5, 1.5, [])),
    *(("nodes", value, "nodes must be") for value in ("ab", None, 5, {"a": 1}, [1], [""], [None], [["a"]])),
    *(
        ("id", value, "id must be")
        for value in ("", "a/b", "../x", None, 5, ["a"], "a b", "x" * 200, "a\\b", "\0")
    ),
    *(
        ("fields", value, "field")
        for value in (None, [], "price", {"price": "money"}, {"": "str"}, {"a": None})
    ),
    *(("settings", value, "settings must be") for value in (None, [], "lazy")),
    ("settings", {"policy": "eager"}, "policy must be"),
    ("settings", {"policy": "lazy", "durability": 5}, "durability must be"),
    ("settings", {"policy": "lazy", "turbo": True}, "turbo"),
    *(("created", value, "created must be") for value in ("yes", None, 1)),
    ("format", 3, "format 3"),
    ("format", None, "format None"),
    *(
        (name, value, f"{name} must be")
        for name in ("snapshot", "source")
        for value in (None, 5, "a/b", ["a"])
    ),
    ("rule", "other", "'other'"),
    ("rule", [], r"rule \[\]"),
    ("replicas", 3, "'replicas'"),
]


@pytest.mark.parametrize(("name", "value", "said"), ODD)
def test_an_odd_value_is_named(tmp_path: Path, name: str, value: Any, said: str) -> None:
    write(tmp_path, {**GOOD, name: value})
    with pytest.raises(ClusterError, match=said) as raised:
        Config.read(tmp_path)
    assert str(tmp_path / "cluster.json") in str(raised.value)
    assert len(str(raised.value)) < 600
    with pytest.raises(ClusterError, match=said):
        Cluster.open(tmp_path, engine=LocalEngine())


@pytest.mark.parametrize("name", GOOD)
def test_a_missing_value_is_named(tmp_path: Path, name: str) -> None:
    write(tmp_path, {key: value for key, value in GOOD.items() if key != name})
    with pytest.raises(ClusterError, match=rf"cluster\.json .*{name}"):
        Config.read(tmp_path)


@pytest.mark.parametrize(
    "content",
    ["", "{", "nonsense", "[]", "null", "5", '"x"', "[1, 2]", b"\xff\xfe\x00", "[" * 100_000, b"\0" * 100, "1" * 5000,
     '{"format": 1} x', "NaN"],
)  # fmt: skip
def test_what_is_not_an_object_of_json_is_said(tmp_path: Path, content: Any) -> None:
    write(tmp_path, content)
    with pytest.raises(ClusterError, match=r"cluster\.json") as raised:
        Config.read(tmp_path)
    assert "attribute" not in str(raised.value)
    assert "argument" not in str(raised.value)
    assert len(str(raised.value)) < 600


def test_wrong_arguments_of_a_new_cluster_leave_nothing(tmp_path: Path) -> None:
    for wrong in ({"shards": 10_001}, {"publish_every": 0}, {"nodes": [5]}, {"shards": np.float64(2)}):
        arguments: dict[str, Any] = wrong
        with pytest.raises(ValueError, match="must be"):
            Cluster.open(tmp_path / "c", LSH(8), engine=LocalEngine(), **arguments)
    assert not (tmp_path / "c").exists()
