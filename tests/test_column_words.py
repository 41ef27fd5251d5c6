"""What pictures call columns: words, each column in its unit, none by its name in the tables."""

from __future__ import annotations

import pytest

from runner.column_words import title_of, words_of
from runner.columns import TIMES, summary_columns


@pytest.mark.parametrize(
    ("column", "title"),
    [
        ("median_wall_ms", "median wall time, ms"),
        ("median_call_us", "median time of one call, µs"),
        ("ci_low_event_ms", "time by events, lower end of the interval, ms"),
        ("gb_per_s", "rate, GB/s"),
        ("d2h_gb_per_s", "rate d2h, GB/s"),
        ("link_gb_per_s", "limit of the link, GB/s"),
        ("chunk_bytes", "chunk, bytes"),
        ("staging_threads", "staging threads"),
        ("streams", "streams"),
        ("busy_ms", "earlier work, ms"),
        ("speedup", "speedup"),
        ("overlap_efficiency", "overlap efficiency"),
    ],
)
def test_columns_are_named_in_words_with_their_unit(column: str, title: str) -> None:
    assert title_of(column) == title


def test_no_column_of_numbers_shows_its_name_in_the_tables() -> None:
    titles = {column.name: title_of(column.name) for column in summary_columns() if column.type != "text"}
    assert [name for name, title in titles.items() if "_" in title] == []
    assert len(set(titles.values())) == len(titles)


def test_every_time_is_called_one_or_what_else_it_measures() -> None:
    times = [name for name, (unit, _) in TIMES.items() if unit in ("ms", "us")]
    assert [name for name in times if not {"time", "gap", "excess"} & set(words_of(f"median_{name}").split())] == []
