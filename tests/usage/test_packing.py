"""What is packed is what is read: any whole numbers, any paths, in any number of parts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from portal.usage.packing import Packed, chosen, joined, pack, unpack

whole = st.one_of(st.integers(-3, 300), st.integers(-(2**63), 2**63 - 1))


@st.composite
def packed_any(draw: st.DrawFn) -> Packed:
    rows = draw(st.integers(0, 6))
    paths = tuple(
        draw(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple), max_size=4, unique=True))
    )
    columns = {name: draw(st.lists(whole, min_size=rows, max_size=rows)) for name in ("first", "second")}
    places = st.integers(0, len(paths) - 1) if paths else st.nothing()
    if paths or not rows:
        columns["path"] = draw(st.lists(places, min_size=rows, max_size=rows)) if rows else []
    return Packed({name: np.array(values, dtype=np.int64) for name, values in columns.items()}, paths)


def rows_of(packed: Packed) -> list[tuple[object, ...]]:
    """Each row, with its path instead of the path's place."""
    first, second = packed.columns["first"].tolist(), packed.columns["second"].tolist()
    paths = packed.columns.get("path", np.zeros(0, dtype=np.int64)).tolist()
    return list(zip(first, second, (packed.paths[place] for place in paths), strict=bool(paths)))


@given(packed=packed_any())
def test_what_is_unpacked_is_what_was_packed(packed: Packed) -> None:
    found = unpack(pack(packed))
    assert found.paths == packed.paths
    assert {name: column.tolist() for name, column in found.columns.items()} == {
        name: column.tolist() for name, column in packed.columns.items()
    }
    assert all(column.dtype == np.int64 for column in found.columns.values())


@given(parts=st.lists(packed_any().filter(lambda part: "path" in part.columns), max_size=4))
def test_parts_that_are_joined_hold_each_row_with_its_own_path(parts: list[Packed]) -> None:
    whole_of = joined([unpack(pack(part)) for part in parts], ("first", "second", "path"))
    assert rows_of(whole_of) == [row for part in parts for row in rows_of(part)]


@given(packed=packed_any().filter(lambda part: "path" in part.columns), draw=st.data())
def test_chosen_rows_keep_their_paths(packed: Packed, draw: st.DataObject) -> None:
    rows = len(packed.columns["first"])
    mask = draw.draw(st.lists(st.booleans(), min_size=rows, max_size=rows))
    kept = chosen(packed, np.array(mask, dtype=np.bool_))
    assert rows_of(kept) == [row for row, keep in zip(rows_of(packed), mask, strict=True) if keep]


def test_a_row_of_a_day_takes_far_fewer_bytes_than_its_numbers() -> None:
    moments = np.arange(4000, dtype=np.int64) * 20 + 1_764_000_000
    ids = np.arange(4000, dtype=np.int64) + 5_000_000_000
    data = pack(Packed({"first": moments, "second": ids}))
    assert len(data) < 4000 * 8
