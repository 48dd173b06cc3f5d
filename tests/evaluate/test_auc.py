import numpy as np
import pytest

import hashstream as hs


def test_mean_is_the_mean_of_the_values():
    assert hs.evaluate.auc([(1, 0.2), (10, 0.4), (1000, 0.9)]) == pytest.approx(0.5)


def test_trapezoid_is_the_mean_height_of_the_lines():
    points = [(0, 0.0), (10, 1.0), (40, 1.0)]
    assert hs.evaluate.auc(points, rule="trapezoid") == pytest.approx((5 + 30) / 40)
    assert hs.evaluate.auc(reversed(points), rule="trapezoid") == pytest.approx(35 / 40)


def test_even_spacing_and_a_flat_curve_give_the_height():
    flat = np.column_stack([np.arange(2000, 20001, 2000), np.full(10, 0.7)])
    assert hs.evaluate.auc(flat) == pytest.approx(0.7)
    assert hs.evaluate.auc(flat, rule="trapezoid") == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("points", "rule", "says"),
    [
        ([], "mean", "empty"),
        ([(1, 2, 3)], "mean", "pairs"),
        ([(1, 0.5), (2, np.nan)], "mean", r"points\[1\]"),
        ([(5, 0.5), (5, 0.6)], "mean", "n_train = 5"),
        ([(5, 0.5)], "trapezoid", "two points"),
        ([(5, 0.5)], "simpson", "simpson"),
    ],
)
def test_bad_input_is_named(points, rule, says):
    with pytest.raises(ValueError, match=says):
        hs.evaluate.auc(points, rule=rule)
