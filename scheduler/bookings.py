"""Reservations as the core works with them, and their tables in a snapshot (R12).

A *booking* is one reservation in memory: which workload, which hosts, from when.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.types import CancelledReservations, ReservationPlaces, Reservations, ReservationTakings, Reserved


@dataclass(slots=True)
class Booking:
    """Hosts and a time, kept for a workload until it starts, is cancelled or loses a host."""

    id: int  # rising in the order made
    workload: int
    at: int  # everything on its hosts that it needs is free or takeable from then on
    made_at: int
    moved: bool  # express starts have moved its time already
    places: dict[int, int]  # replicas by host
    takings: frozenset[int]  # workloads that it may take once past their minimum: its licence is kept

    def copy(self, hosts: Sequence[int] | None = None) -> Booking:
        """The same, to be changed apart from this one; hosts renamed by position, if given."""
        places = {hosts[host] if hosts else host: count for host, count in self.places.items()}
        return Booking(self.id, self.workload, self.at, self.made_at, self.moved, places, self.takings)


def read_bookings(reserved: Reserved) -> list[Booking]:
    """The bookings of a snapshot, in the order made."""
    table = reserved.reservations
    columns = (table.id, table.workload, table.at, table.made_at, table.moved)
    bookings = [
        Booking(number, workload, at, made_at, bool(moved), {}, frozenset())
        for number, workload, at, made_at, moved in zip(*(column.tolist() for column in columns), strict=True)
    ]
    places = reserved.places
    rows = zip(places.reservation.tolist(), places.host.tolist(), places.replicas.tolist(), strict=True)
    for row, host, replicas in rows:
        bookings[row].places[host] = bookings[row].places.get(host, 0) + replicas
    takings = reserved.takings
    for row, workload in zip(takings.reservation.tolist(), takings.workload.tolist(), strict=True):
        bookings[row].takings |= {workload}
    return sorted(bookings, key=lambda booking: booking.id)


def write_bookings(bookings: Iterable[Booking], cancelled: Iterable[tuple[int, int]]) -> Reserved:
    """The tables that stand for bookings and (author, when they cancelled one)."""
    rows = [(one.id, one.workload, one.at, one.made_at, one.moved) for one in bookings]
    places = [(row, host, count) for row, one in enumerate(bookings) for host, count in sorted(one.places.items())]
    takings = [(row, workload) for row, one in enumerate(bookings) for workload in sorted(one.takings)]
    main = _columns(rows, 5)
    return Reserved(
        Reservations(main[0], main[1], main[2], main[3], main[4].astype(bool)),
        ReservationPlaces(*_columns(places, 3)),
        ReservationTakings(*_columns(takings, 2)),
        CancelledReservations(*_columns(list(cancelled), 2)),
    )


def _columns(rows: Sequence[tuple[int, ...]], width: int) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    table = np.array(rows, dtype=np.int64).reshape(len(rows), width)
    return [table[:, number].copy() for number in range(width)]
