from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runner.units import (
    LARGEST_SIZE,
    UNITS,
    about_size,
    digits,
    format_seconds,
    format_size,
    parse_size,
    parse_size_text,
    told_size,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (1, 1),
        (LARGEST_SIZE, LARGEST_SIZE),
        ("1B", 1),
        ("4.1MB", 4_100_000),
        ("8.2MB", 8_200_000),
        ("16.9GB", 16_900_000_000),
        ("1.5GiB", 1_610_612_736),
        ("32 MiB", 33_554_432),
        ("32MB", 32_000_000),
        ("0.5KiB", 512),
        ("0.25MiB", 262_144),
        ("1024TiB", LARGEST_SIZE),
    ],
)
def test_sizes_are_exact(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "MiB",
        "32",
        "-1MiB",
        "+1MiB",
        "1,5GiB",
        "32-64MiB",
        "32MiB, 64MiB",
        "32MiB/s",
        "1.2.3GiB",
        "32 MiB x",
        " 32MiB",
        "32MiB\n",
        "32  MiB",
        "032MiB",
        ".5MiB",
        "5.MiB",
        "1e3MiB",
        "0x10MiB",
        "1_000B",
        "32M",
        "32Mi",
        "32 MiBs",
        "32 MiByte",
        "32mib",
        "32MIB",
        "32Mb",
        "32mb",
        "32Mbit",
        "32kb",
        "32KB",
        "32EiB",
        "0.1KiB",
        "1.9B",
        "0B",
        "0.0MiB",
        "1024.1TiB",
        "9999999TiB",
        "9" * 40 + "B",
        "３２MiB",
        0,
        -1,
        LARGEST_SIZE + 1,
        1.0,
        True,
        None,
        [1],
        float("nan"),
    ],
)
def test_anything_else_is_refused_with_a_sentence(text: object) -> None:
    with pytest.raises(ValueError, match=r"size|unit|bytes|byte"):
        parse_size(text)


def test_digits_alone_are_bytes_on_a_command_line() -> None:
    assert parse_size_text("65536") == parse_size_text("64KiB") == 65536
    for text in ("0", "007", "1e6", "6_5", "\u0663", "9" * 30):
        with pytest.raises(ValueError, match="size"):
            parse_size_text(text)


@pytest.mark.parametrize("text", ["x" * 10**6, "9" * 10**6 + "B", "1." + "1" * 10**6 + "GiB", "0x" + "f" * 10**6])
def test_a_refusal_of_a_long_text_is_short(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size") as refused:
        parse_size(text)
    assert len(str(refused.value)) < 100


@given(st.integers(1, LARGEST_SIZE))
@example(2**30)
@example(10**12)
@example(LARGEST_SIZE)
def test_a_written_size_reads_back(size: int) -> None:
    assert parse_size(format_size(size)) == size


@given(st.integers(1, 10**6), st.sampled_from(sorted(UNITS)))
def test_whole_numbers_of_a_unit_read_exactly(number: int, unit: str) -> None:
    size = number * UNITS[unit]
    if size <= LARGEST_SIZE:
        assert parse_size(f"{number}{unit}") == parse_size(f"{number} {unit}") == parse_size(size) == size


@given(st.text(max_size=30))
def test_no_text_raises_anything_but_a_value_error(text: str) -> None:
    try:
        size = parse_size(text)
    except ValueError:
        return
    assert 1 <= size <= LARGEST_SIZE


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (1, "1B"),
        (4097, "4097B"),
        (1024, "1KiB"),
        (1536, "1.5KiB"),
        (2**25, "32MiB"),
        (25_000_000, "25MB"),
        (2**50, "1024TiB"),
        (100_000_000, "100MB"),
        (5 * 2**28, "1.25GiB"),
        (17 * 2**16, "1088KiB"),
        (100_100, "100.1kB"),
        (8_192_000, "8000KiB"),
        (0, "0B"),
    ],
)
def test_sizes_are_written_as_people_do(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("size", "text"), [(149_536_505_856, "139.3GiB"), (2**30, "1GiB"), (1000, "1000B"), (1_500_000, "1.431MiB"), (0, "0B")]
)
def test_amounts_that_nobody_chose_are_written_with_four_digits(size: int, text: str) -> None:
    assert about_size(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(4.2e-6, "4.2 µs"), (0.0971, "97.1 ms"), (12.34, "12.3 s"), (200, "3 min 20 s"), (7500, "2 h 5 min"), (0, "0.0 µs")],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (9.9996, "10"),
        (10.004, "10"),
        (97.866, "97.87"),
        (97.5, "97.5"),
        (999.96, "1,000"),
        (12345.6, "12,346"),
        (1234567, "1,234,567"),
        (0.000012345, "0.00001234"),
        (-0.02, "-0.02"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
)
def test_figures_have_four_digits_no_zeros_behind_them_and_no_exponent(value: float, text: str) -> None:
    assert digits(value) == text


def test_figures_can_have_other_numbers_of_digits() -> None:
    assert [digits(14.857, 3), digits(0.99961, 3), digits(97.86612345, 6), digits(123456.7, 3)] == [
        "14.9",
        "1",
        "97.8661",
        "123,457",
    ]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (1, "1 byte"),
        (4097, "4,097 bytes"),
        (4096, "4KiB (4,096 bytes)"),
        (3_000_000, "3MB (3,000,000 bytes)"),
        (2**28, "256MiB (268,435,456 bytes)"),
    ],
)
def test_sizes_in_sentences_are_short_and_exact(size: int, text: str) -> None:
    assert told_size(size) == text
