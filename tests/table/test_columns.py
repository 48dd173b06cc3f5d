"""Columns of typed values by slot: what goes in comes out, filters see it, and files from strangers are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from enum import Enum
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from hashstream.table.state.columns import (
    KINDS,
    RESERVED,
    FieldColumn,
    TextColumn,
    field_column,
    field_kinds,
    read_values,
)

LEAST, MOST = -(2**63) + 1, 2**63 - 1
EAST = timezone(timedelta(hours=5, minutes=30))


class Colour(str, Enum):  # noqa: UP042
    RED = "red"


class Name(str):
    pass


def column(kind: str, values: Any) -> FieldColumn:
    return read_values(kind, "f", values, len(values))


def values_of(some: FieldColumn) -> list[Any]:
    return some.take(np.arange(len(some))).tolist()


def restored(some: FieldColumn) -> FieldColumn:
    arrays = {name: array.copy() for name, array in some.arrays().items()}
    for array in arrays.values():
        array.flags.writeable = False  # as of a mapped file
    return field_column(some.kind, arrays)


# ---- random columns against lists

MAKERS: dict[str, Callable[[np.random.Generator], Any]] = {
    "str": lambda rng: "".join(rng.choice(list("abé😀\ud800\x00"), rng.integers(0, 4))),
    "int": lambda rng: int(rng.choice([0, 1, -1, 7, LEAST, MOST, int(rng.integers(-99, 99))])),
    "float": lambda rng: float(rng.choice([0.0, -1.5, np.inf, -np.inf, 5e-324, rng.normal()])),
    "bool": lambda rng: bool(rng.random() < 0.5),
    "datetime": lambda rng: (datetime(2020, 1, 1) + timedelta(microseconds=int(rng.integers(-(10**15), 10**15))))
    .replace(tzinfo=None if rng.random() < 0.5 else UTC),
    "list": lambda rng: [str(one) for one in rng.integers(0, 6, rng.integers(0, 4))],
}  # fmt: skip


def random_values(kind: str, rng: np.random.Generator, n: int, missing: float = 0.2) -> list[Any]:
    return [None if rng.random() < missing else MAKERS[kind](rng) for _ in range(n)]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", KINDS)
def test_a_column_is_a_list(kind: str, seed: int) -> None:
    """Extended in pieces, padded, chosen, saved and read; each earlier column stays as it was."""
    rng = np.random.default_rng(seed)
    some = field_column(kind)
    model: list[Any] = []
    earlier: list[tuple[FieldColumn, list[Any]]] = []
    for _ in range(30):
        match rng.integers(0, 6):
            case 0:
                some, model = some.padded(len(model) + 3), [*model, None, None, None]
            case 1 if model:
                slots = np.sort(rng.choice(len(model), rng.integers(0, len(model) + 1), replace=False))
                some = some.chosen(slots.astype(rng.choice([np.int64, np.uint32])))
                model = [model[slot] for slot in slots]
            case 2:
                some = restored(some)
            case _:
                batch = random_values(kind, rng, int(rng.integers(0, 40)), rng.choice([0, 0.3]))
                some, model = some.extended(column(kind, batch)), model + batch
        earlier.append((some, list(model)))
    for old, values in earlier:
        assert len(old) == len(values)
        assert values_of(old) == values
        assert [type(one) for one in values_of(old)] == [type(one) for one in values]
        assert values_of(restored(old)) == values
        assert old.mask("exists", None, 0, len(old)).tolist() == [one is not None for one in values]
    assert some.padded(len(some)) is some
    assert some.padded(0) is some
    assert some.nbytes >= len(some)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_share_a_buffer_that_has_room(kind: str) -> None:
    rng = np.random.default_rng(0)
    before = field_column(kind).extended(column(kind, random_values(kind, rng, 20)))
    saw = values_of(before)
    after = before.extended(column(kind, random_values(kind, rng, 5)))
    for name in before.arrays().keys() - {"texts"}:
        assert np.shares_memory(before.arrays()[name], after.arrays()[name])
    assert values_of(before) == saw == values_of(after)[:20]


@pytest.mark.parametrize("kind", KINDS)
def test_take_of_any_shape(kind: str) -> None:
    values = random_values(kind, np.random.default_rng(1), 12)
    taken = column(kind, values).take(np.arange(12, dtype=np.uint32).reshape(3, 4))
    assert (taken.shape, taken.dtype) == ((3, 4), object)
    assert taken.ravel().tolist() == values
    assert column(kind, values).take(np.empty((0, 2), np.int64)).shape == (0, 2)


def test_a_dictionary_outgrows_its_bytes() -> None:
    """Numbers of 1, 2 and 4 bytes; a column that was there before does not match strings that it does not have."""
    some = field_column("str")
    for start in range(0, 70_000, 10_000):
        some = some.extended(column("str", [f"{i}" for i in range(start, start + 10_000)]))
    small = field_column("str").extended(column("str", [f"{i}" for i in range(200)]))
    large = small.extended(column("str", [f"{i}" for i in range(300)]))
    assert small.arrays()["codes"].dtype == np.uint8
    assert large.arrays()["codes"].dtype == np.uint16
    assert some.arrays()["codes"].dtype == np.uint32
    assert values_of(some) == [f"{i}" for i in range(70_000)]
    assert not small.mask("eq", "255", 0, 200).any()
    assert small.mask("in", tuple(f"{i}" for i in range(190, 300)), 0, 200).tolist() == [
        i >= 190 for i in range(200)
    ]
    assert small.mask("gte", "0", 0, 200).all()
    assert large.mask("eq", "255", 0, 500).tolist() == [i == 455 for i in range(500)]
    chosen = some.chosen(np.array([69_999, 3, 69_999]))
    assert chosen.arrays()["codes"].dtype == np.uint8
    assert json.loads(chosen.arrays()["texts"].tobytes()) == ["3", "69999"]


# ---- comparisons

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b,
    "lt": lambda a, b: a < b,
    "lte": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "gte": lambda a, b: a >= b,
    "in": lambda a, b: any(a == one for one in b),
}


def utc(moment: Any) -> Any:
    return moment.replace(tzinfo=UTC) if isinstance(moment, datetime) and moment.tzinfo is None else moment


def expected(values: list[Any], op: str, operand: Any) -> list[bool]:
    def holds(value: Any) -> bool:
        if value is None:
            return False
        if isinstance(value, list):
            return any(COMPARE[op](one, operand) for one in value)
        return COMPARE[op](utc(value), operand)

    return [holds(value) for value in values]


@pytest.mark.parametrize("missing", [0, 0.3])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_masks_are_comparisons_of_each_value(kind: str, seed: int, missing: float) -> None:
    rng = np.random.default_rng(seed)
    maker = MAKERS["str" if kind == "list" else kind]
    values = random_values(kind, rng, 200, missing)
    some = column(kind, values[:120]).extended(column(kind, values[120:]))
    operands = [maker(rng) for _ in range(6)] + [
        one for one in values[:9] if one is not None and kind != "list"
    ]
    operands += ["3", ""] if kind == "list" else []
    operands += [2.5, -0.5, 1e30, -1e30, 2**70, -(2**70), 2.0**63, np.inf, -np.inf] if kind == "int" else []
    checks = [(op, one) for op in COMPARE if op != "in" for one in operands]
    checks += [("in", tuple(operands[:k])) for k in (0, 1, 2, len(operands))]
    for op, operand in checks:
        given = tuple(some.operand(one, "f") for one in operand) if op == "in" else some.operand(operand, "f")
        plain = tuple(map(utc, operand)) if op == "in" else utc(operand)
        first, last = sorted(rng.integers(0, 201, 2).tolist())
        for a, b in ((0, 200), (first, last)):
            mask = some.mask(op, given, a, b)
            assert mask.dtype == bool
            assert mask.tolist() == expected(values[a:b], op, plain), (op, operand)


@pytest.mark.parametrize("many", [3, 50, 5000])
@pytest.mark.parametrize("kind", ["str", "int", "float", "datetime", "list"])
@pytest.mark.parametrize("spread", [1, 10**7])
def test_one_of_many_values(kind: str, many: int, spread: int) -> None:
    """Every path of "in": a comparison for each, a table, a search."""
    rng = np.random.default_rng(many)
    make: Callable[[int], Any] = {
        "str": str,
        "list": str,
        "int": lambda i: i * spread,
        "float": lambda i: i * spread / 2,
        "datetime": lambda i: datetime(1970, 1, 1) + timedelta(microseconds=i * spread),
    }[kind]
    numbers = rng.integers(0, 10_000, 2000).tolist()
    values = [None if i % 7 == 0 else [make(i), make(i + 1)] if kind == "list" else make(i) for i in numbers]
    wanted = {int(i) for i in rng.integers(0, 10_000, many)}
    some = column(kind, values)
    mask = some.mask("in", tuple(some.operand(make(i), "f") for i in wanted), 0, 2000)
    either = {i for i in numbers if i in wanted or (kind == "list" and i + 1 in wanted)}
    assert mask.tolist() == [bool(i % 7) and i in either for i in numbers]


@pytest.mark.parametrize("distinct", [5, 100, 250, 1000, 70_000])
def test_order_of_strings_with_few_and_many_distinct(distinct: int) -> None:
    """Every way to look numbers up, and more strings than slots."""
    n = max(distinct, 300)
    values: list[Any] = [f"{i % distinct:05d}" for i in range(n)]
    values[7] = None
    some = column("str", values)
    for operand in ("00000", "00004", f"{distinct // 2:05d}", f"{distinct - 4:05d}", "zzz"):
        for op in ("lt", "lte", "gt", "gte"):
            for first, last in ((0, n), (5, 100)):
                found = some.mask(op, operand, first, last)
                assert found.tolist() == expected(values[first:last], op, operand)
                found[:] = True  # the caller's own


# ---- values that go in


def test_datetimes_come_back() -> None:
    new_york = ZoneInfo("America/New_York")
    given: list[Any] = [
        datetime(2024, 5, 6, 7, 8, 9, 123456),
        datetime(2024, 5, 6, 7, 8, tzinfo=EAST),
        datetime(2024, 11, 3, 1, 30, fold=1, tzinfo=new_york),
        datetime.min,
        datetime.max,
        datetime.min.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
        date(2024, 2, 29),
        "2024-05-06",
        "2024-05-06T07:08:09Z",
        "2024-05-06T07:08:09.5+02:00",
        "20240506T070809",
        np.datetime64("2024-05-06T07:08:09.123456789"),
        np.datetime64("1969-12-31T23:59:59.999999999"),
        np.datetime64("2024-05"),
        np.datetime64("-1", "Y") + 60,
        np.datetime64("1677-09-21T00:12:43.145224193"),  # the first that nanoseconds reach
        np.datetime64(-1, "25ns"),
        pd.Timestamp("2024-05-06 07:08:09.123456789"),
        pd.Timestamp("2024-05-06", tz="Europe/Berlin"),
        None,
        pd.NaT,
        np.datetime64("NaT"),
        float("nan"),
        pd.NA,
    ]
    found = values_of(column("datetime", given))
    instants = [one.astimezone(UTC) if one.tzinfo else one for one in given[:7]]
    assert (
        found[:7] == instants
    )  # Python finds a moment of a repeated hour unequal to the same in another zone
    assert all(
        (one.tzinfo is None) == (two.tzinfo is None) for one, two in zip(found[:7], given[:7], strict=True)
    )
    assert found[7:] == [
        datetime(2024, 2, 29),
        datetime(2024, 5, 6),
        datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC),
        datetime(2024, 5, 6, 5, 8, 9, 500000, tzinfo=UTC),
        datetime(2024, 5, 6, 7, 8, 9),
        datetime(2024, 5, 6, 7, 8, 9, 123456),
        datetime(1969, 12, 31, 23, 59, 59, 999999),
        datetime(2024, 5, 1),
        datetime(59, 1, 1),
        datetime(1677, 9, 21, 0, 12, 43, 145224),
        datetime(1969, 12, 31, 23, 59, 59, 999999),
        datetime(2024, 5, 6, 7, 8, 9, 123456),
        datetime(2024, 5, 5, 22, tzinfo=UTC),
        *[None] * 5,
    ]
    assert {type(one) for one in found if one is not None} == {datetime}


@pytest.mark.parametrize(
    "unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "25ns", "7D", "ps", "as"]
)
def test_an_array_of_datetime64_is_read_like_its_elements(unit: str) -> None:
    rng = np.random.default_rng(0)
    numbers = rng.integers(-60, 60, 30)
    array = numbers.astype(f"datetime64[{unit}]")
    array[4] = "NaT"
    as_list = column("datetime", list(array))
    assert (
        values_of(column("datetime", array))
        == values_of(as_list)
        == values_of(column("datetime", pd.array(list(array), object)))
    )
    assert values_of(as_list)[4] is None
    huge = array.copy()
    huge[9] = np.datetime64(2**62, unit)
    if unit not in ("ns", "25ns", "ps", "as"):
        with pytest.raises(TypeError, match="'f', row 9"):
            column("datetime", huge)
    assert values_of(column("datetime", np.array(["NaT", "NaT"], "datetime64"))) == [None, None]


class Nowhere(tzinfo):
    """A time zone that does not know its offset."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        return None

    def dst(self, moment: datetime | None) -> timedelta | None:
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        return None


REFUSED: dict[str, list[Any]] = {
    "str": [1, b"a", ["a"], 1.5, True, np.datetime64("2020"), object()],
    "int": [1.5, "1", True, np.True_, -(2**63), 2**63, np.uint64(2**63), float("inf"), 2.0**63, [1], 1j, b"1"],
    "float": ["1", True, np.True_, 10**400, [1.0], 1j, None.__class__],
    "bool": [0, 1, 1.0, "True", np.int8(1), []],
    "datetime": [
        "yesterday", "", 5, 5.5, True, b"2020-01-01", [2020],
        datetime.min.replace(tzinfo=EAST), datetime.max.replace(tzinfo=timezone(-timedelta(hours=1))),
        datetime(2020, 1, 1, tzinfo=Nowhere()), np.datetime64(300_000, "Y"), np.datetime64(2**60, "s"),
        np.datetime64("10000-01-01"), pd.Timestamp(np.datetime64(20_000, "Y").astype("M8[s]")),
        timedelta(1),
    ],
    "list": ["red", 5, ["a", None], [1], ("a", b"b"), {"a": 1}, {"a", 1}, True, [["a"]], np.array([1, 2]), range(2)],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "value"), [(kind, value) for kind, some in REFUSED.items() for value in some]
)
def test_an_error_names_the_field_and_the_row(kind: str, value: Any) -> None:
    values = [None, random_values(kind, np.random.default_rng(0), 1, 0)[0], value, value]
    with pytest.raises(TypeError, match=r"field 'f', row 2: .* is not "):
        column(kind, values)
    if kind != "list":
        objects = np.empty(4, object)
        objects[:] = values
        with pytest.raises(TypeError, match="field 'f', row 2: "):
            column(kind, objects)


OPERANDS_REFUSED = REFUSED | {
    "int": ["1", True, np.True_, float("nan"), None, [1], 1j],
    "float": [*REFUSED["float"], float("nan"), None],
    "datetime": [*REFUSED["datetime"], None, pd.NaT, np.datetime64("NaT"), float("nan")],
    "list": [1, ["a"], None, b"a"],
}


@pytest.mark.parametrize(
    ("kind", "value"), [(kind, value) for kind, some in OPERANDS_REFUSED.items() for value in some]
)
def test_an_operand_of_another_type_is_refused(kind: str, value: Any) -> None:
    with pytest.raises(TypeError, match=r"field 'f' holds .*, not "):
        field_column(kind).operand(value, "f")


def test_an_error_does_not_repeat_a_long_value() -> None:
    with pytest.raises(TypeError) as caught:
        column("str", [["a" * 1000] * 1000])
    assert len(str(caught.value)) < 300


def test_numbers_come_back() -> None:
    ints = [MOST, LEAST, 0, np.int8(-3), np.uint64(2**63 - 1), 4.0, np.float32(2), None, float("nan"), pd.NA]
    assert values_of(column("int", ints)) == [MOST, LEAST, 0, -3, MOST, 4, 2, None, None, None]
    floats = [np.inf, -np.inf, 1, np.float32(0.5), np.int64(2), None, float("nan"), pd.NA, 10**300]
    assert values_of(column("float", floats)) == [np.inf, -np.inf, 1.0, 0.5, 2.0, None, None, None, 1e300]
    assert values_of(column("bool", [True, np.False_, None, pd.NA])) == [True, False, None, None]
    for kind, given in (("int", ints), ("float", floats)):
        assert {type(one) for one in values_of(column(kind, given))} == {
            int if kind == "int" else float,
            type(None),
        }


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u4", "i8", "u8", ">i8", "f2", "f4", "f8", "g", "?"])
def test_arrays_are_read_like_lists(dtype: str) -> None:
    array = np.array([0, 1, 1, 0, 1], dtype)
    kinds = ["bool"] if dtype == "?" else ["float", "int"]
    for kind in kinds:
        some = column(kind, array)
        assert values_of(some) == values_of(column(kind, array.tolist()))
        array[0] = 1
        assert values_of(some)[0] == 0  # not the caller's memory
        array[0] = 0
        assert values_of(column(kind, np.tile(array, 2)[::2])) == [0, 1, 1, 1, 0]
    for kind in KINDS.keys() - {*kinds, "float"}:
        with pytest.raises(TypeError, match="'f', row 0"):
            column(kind, array)


def test_numbers_of_arrays_that_do_not_fit() -> None:
    with pytest.raises(TypeError, match="row 1"):
        column("int", np.array([1, 2**63], np.uint64))
    with pytest.raises(TypeError, match="row 1"):
        column("int", np.array([1, -(2**63)]))
    assert values_of(column("int", np.array([1.0, np.nan]))) == [1, None]
    if np.finfo(np.longdouble).max > np.finfo(np.float64).max:
        assert values_of(column("float", np.array(["1e400", "1"], np.longdouble))) == [np.inf, 1]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("int", [1, 2, 3]),
        ("float", [1.0, 2.0, 3.0]),
        ("bool", [True, False, True]),
        ("datetime", np.array(["2020", "2021", "2022"], "datetime64[us]")),
        ("str", ["a", "b", "c"]),
    ],
)
def test_a_masked_value_is_missing(kind: str, data: Any) -> None:
    masked = np.ma.masked_array(data, [False, True, False])
    found = values_of(column(kind, masked))
    assert found[1] is None
    assert None not in (found[0], found[2])


def test_strings_come_back() -> None:
    given = [
        Colour.RED,
        Name("ann"),
        np.str_("x"),
        "",
        "\x00",
        "a\x00",
        "\ud83d\ude00",
        "😀",
        "\udcff",
        None,
        pd.NA,
    ]
    some = column("str", given)
    found = ["red", "ann", "x", "", "\x00", "a\x00", "\ud83d\ude00", "😀", "\udcff", None, None]
    assert values_of(some) == values_of(restored(some)) == found
    assert {type(one) for one in values_of(some)} == {str, type(None)}
    assert restored(some).mask("eq", some.operand("\ud83d\ude00", "f"), 0, 11).tolist() == [
        i == 6 for i in range(11)
    ]
    assert some.mask("eq", some.operand(Colour.RED, "f"), 0, 11).tolist() == [i == 0 for i in range(11)]
    assert values_of(column("str", np.array(["a", "bc"]))) == ["a", "bc"]
    texts = np.array(["a", None, "é"], np.dtypes.StringDType(na_object=None))
    assert values_of(column("str", texts)) == ["a", None, "é"]
    assert values_of(column("str", pd.Series(["a", None, "b"], index=[5, 6, 7]))) == ["a", None, "b"]
    assert values_of(column("str", pd.Categorical(["a", None, "b"]))) == ["a", None, "b"]


def test_lists_come_back() -> None:
    given: list[Any] = [["b", "a", "b"], [], None, ("x",), {"q", "p", "r"}, frozenset(), np.array(["m", "n"]),
                        np.array([], object), float("nan"), pd.NA, [Colour.RED, np.str_("y")], [""]]  # fmt: skip
    some = column("list", given)
    found = [
        ["b", "a", "b"],
        [],
        None,
        ["x"],
        ["p", "q", "r"],
        [],
        ["m", "n"],
        [],
        None,
        None,
        ["red", "y"],
        [""],
    ]
    assert values_of(some) == values_of(restored(some)) == found
    assert some.mask("exists", None, 0, 12).tolist() == [one is not None for one in found]
    assert values_of(column("list", np.array([["a", "b"], ["c", "d"]]))) == [["a", "b"], ["c", "d"]]


def test_pandas_series_are_read() -> None:
    assert values_of(column("int", pd.Series([1, None, 3], dtype="Int64"))) == [1, None, 3]
    assert values_of(column("float", pd.Series([1.5, None]))) == [1.5, None]
    assert values_of(column("bool", pd.Series([True, None], dtype="boolean"))) == [True, None]
    days = pd.Series(pd.to_datetime(["2020-01-01", None]))
    assert values_of(column("datetime", days)) == [datetime(2020, 1, 1), None]
    aware = days.dt.tz_localize("Asia/Kolkata")
    assert values_of(column("datetime", aware)) == [datetime(2019, 12, 31, 18, 30, tzinfo=UTC), None]
    assert values_of(column("list", pd.Series([["a"], None]))) == [["a"], None]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "values",
    ["ab", b"ab", {"a": 1, "b": 2}, {1, 2}, frozenset([1, 2]), 5, None, iter([1, 2]), bytearray(b"ab")],
    ids=lambda value: type(value).__name__,
)
def test_values_that_are_no_sequence(kind: str, values: Any) -> None:
    with pytest.raises(TypeError, match="field 'price' needs a sequence"):
        read_values(kind, "price", values, 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "values", [[None], [None] * 3, np.array(5), np.zeros((2, 2, 1)), pd.DataFrame({"x": [1, 2], "y": [3, 4]})],
    ids=["few", "many", "none", "cube", "frame"],
)  # fmt: skip
def test_values_of_another_shape(kind: str, values: Any) -> None:
    with pytest.raises(ValueError, match="field 'price'"):
        read_values(kind, "price", values, 2)


class Liar:
    """Longer than it says."""

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Any:
        return iter([None] * 3)


@pytest.mark.parametrize("kind", KINDS)
def test_values_that_are_not_as_many_as_they_say(kind: str) -> None:
    with pytest.raises(ValueError, match="field 'price' gave 3 values, but there are 2 rows"):
        read_values(kind, "price", Liar(), 2)


# ---- declarations


def test_declared_kinds() -> None:
    declared = {
        "a": str,
        "b": "datetime",
        "c": list[str],
        "d": bool,
        "e": int,
        "f": float,
        "g": datetime,
        "h": list,
    }
    kinds = ["str", "datetime", "list", "bool", "int", "float", "datetime", "list"]
    assert list(field_kinds(declared).values()) == kinds
    assert {type(name) for name in field_kinds({Name("a"): str})} == {str}
    assert isinstance(field_column("str"), TextColumn)
    assert field_kinds({}) == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"a": bytes}, {"a": "text"}, {"a": None}, {"a": 5}, {"": str}, {"$a": str}, {5: str}, {"x" * 201: str},
        *({name: str} for name in RESERVED), {f"f{i}": str for i in range(101)},
    ],
)  # fmt: skip
def test_declarations_that_are_refused(fields: Any) -> None:
    with pytest.raises(ValueError):
        field_kinds(fields)


def test_declarations_that_are_no_mapping() -> None:
    with pytest.raises(TypeError, match="must map names to types"):
        field_kinds(["a"])  # type: ignore[arg-type]


# ---- arrays from strangers


def texts(*some: Any) -> np.ndarray:
    return np.frombuffer(json.dumps(list(some)).encode(), np.uint8)


def raw(text: bytes) -> np.ndarray:
    return np.frombuffer(text, np.uint8)


def u32(*some: int) -> np.ndarray:
    return np.array(some, np.uint32)


def i64(*some: int) -> np.ndarray:
    return np.array(some, np.int64)


STRANGE: list[tuple[str, dict[str, np.ndarray]]] = [
    *((kind, {}) for kind in KINDS),
    *((kind, {"values": np.zeros((2, 2), KINDS[kind].dtype)}) for kind in ("int", "float", "bool", "datetime")),  # type: ignore[attr-defined]
    *((kind, {"values": np.zeros(2, dtype)}) for kind in ("int", "float", "bool", "datetime")
      for dtype in (">i8", "u8", "f4", "i1", "?", "O", "U1", "M8[us]")),
    ("int", {"values": np.array(5)}),
    ("bool", {"values": np.array([3], np.uint8)}),
    ("bool", {"values": np.array([255], np.uint8)}),
    ("datetime", {"values": i64(2**62)}),
    ("datetime", {"values": i64(-(2**63) + 1)}),
    ("datetime", {"values": i64(-(2**62))}),
    ("str", {"codes": u32(1)}),
    ("str", {"codes": u32(1), "texts": texts()}),
    ("str", {"codes": u32(3), "texts": texts("a", "b")}),
    ("str", {"codes": u32(2**32 - 1), "texts": texts("a", "b")}),
    ("str", {"codes": i64(-1), "texts": texts("a", "b")}),
    ("str", {"codes": np.array([1.0]), "texts": texts("a", "b")}),
    ("str", {"codes": np.array(1, np.uint8), "texts": texts("a", "b")}),
    ("str", {"codes": np.ones((1, 1), np.uint8), "texts": texts("a", "b")}),
    ("str", {"codes": u32(1).astype(">u4"), "texts": texts("a", "b")}),
    *(("str", {"codes": u32(1), "texts": one}) for one in (
        texts("a", "a"), texts(1, 2), texts(None), texts(["a"]), raw(b'{"a": 1}'), raw(b'"ab"'), raw(b""),
        raw(b"[\xff]"),
        raw(b'["a"'), raw(b"[" * 200_000), raw(b'["a"]').astype(np.uint16), raw(b'["a"] x'),
        raw(b'["\xf0\x9f\x98\x80", "\\ud83d\\ude00"]'), raw(b"[" + b"1" * 10_000 + b"]"), raw(b'["a"]').reshape(1, 5),
    )),
    ("list", {"codes": u32(1), "ends": i64(1)}),
    ("list", {"codes": u32(1), "texts": texts("a")}),
    ("list", {"codes": u32(2), "ends": i64(1), "texts": texts("a")}),
    ("list", {"codes": u32(1, 1), "ends": i64(1), "texts": texts("a")}),
    ("list", {"codes": u32(1, 1), "ends": i64(), "texts": texts("a")}),
    ("list", {"codes": u32(1), "ends": i64(2), "texts": texts("a")}),
    ("list", {"codes": u32(1), "ends": i64(-1, 1), "texts": texts("a")}),
    ("list", {"codes": u32(1, 1), "ends": i64(2, 1, 2), "texts": texts("a")}),
    ("list", {"codes": u32(*[1] * 5), "ends": i64(0, 2**63 - 1, -2, 5), "texts": texts("a")}),
    ("list", {"codes": u32(0, 1), "ends": i64(2), "texts": texts("a")}),
    ("list", {"codes": u32(1, 0), "ends": i64(2), "texts": texts("a")}),
    ("list", {"codes": u32(0, 0), "ends": i64(2), "texts": texts("a")}),
    ("list", {"codes": u32(1), "ends": u32(1), "texts": texts("a")}),
    ("list", {"codes": i64(1), "ends": i64(1), "texts": texts("a")}),
    ("list", {"codes": u32(1), "ends": i64(1).reshape(1, 1), "texts": texts("a")}),
    ("list", {"codes": u32(1).reshape(1, 1), "ends": i64(1), "texts": texts("a")}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "arrays"), STRANGE)
def test_strange_arrays_are_refused(kind: str, arrays: dict[str, np.ndarray]) -> None:
    with pytest.raises((ValueError, KeyError)):
        field_column(kind, arrays)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(30))
def test_damaged_arrays_are_refused_or_work(kind: str, seed: int) -> None:
    """Bytes flipped at random: either an error at once, or a column of which everything can be read."""
    rng = np.random.default_rng(seed)
    good = column(kind, random_values(kind, rng, 20)).arrays()
    for _ in range(20):
        arrays = {name: array.copy() for name, array in good.items()}
        name = str(rng.choice(list(arrays)))
        bytes_ = arrays[name].view(np.uint8)
        bytes_[rng.integers(0, len(bytes_), rng.integers(1, 3))] = rng.integers(0, 256)
        try:
            some = field_column(kind, arrays)
        except ValueError:
            continue
        values_of(some)
        values_of(some.chosen(np.arange(len(some))[::2]))
        values_of(some.extended(column(kind, [None])).padded(len(some) + 5))
        operand = some.operand(MAKERS["str" if kind == "list" else kind](rng), "f")
        for op in ("eq", "lt", "gte"):
            assert len(some.mask(op, operand, 0, len(some))) == len(some)
