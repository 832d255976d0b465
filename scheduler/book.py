"""The reservations of one decision: which hosts they keep, until when, and what it costs others (R12).

A host is kept by the reservation on it that comes first; its number is the host's *zone*.
Zone 0 is everybody's. A start may use a zone if its minimum runtime ends in time for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.bookings import Booking
from scheduler.funds import Funds
from scheduler.placement import Floor
from scheduler.types import Policy

EVERYBODY = (0,)
"""The zones for all where nothing is reserved."""


@dataclass(slots=True)
class Kept:
    """A reservation and what it asks of its project."""

    booking: Booking
    row: int  # of Pending
    path: tuple[int, ...]
    gpus: int  # in total
    contract_seconds: int

    @property
    def ends_at(self) -> int:
        """When its hosts are certain to be takeable again, by its own contract alone."""
        return self.booking.at + self.contract_seconds


def starts_by(at: int, policy: Policy) -> int:
    """R12: by when a workload with a reservation for `at` runs, faults aside: a grace time for what it takes, a start.

    This is the time that people are told; `at` is when its GPUs are free or can be taken.
    """
    return at + max(policy.grace_allocated_seconds, policy.grace_unallocated_seconds) + policy.start_allowance_seconds


class Book:
    """Reservations by zone, from 1 on; a zone is never used again in one decision."""

    def __init__(self, floor: Floor, funds: Funds, policy: Policy) -> None:
        self.floor, self.funds, self.policy = floor, funds, policy
        self.by_zone: dict[int, Kept] = {}
        self.by_row: dict[int, int] = {}  # zone of a row of Pending
        self._next = 1
        self.touched = False  # something was added, dropped or moved
        self._closed: dict[tuple[int, ...], frozenset[int]] = {}
        self._latest: dict[bool, list[tuple[int, int]]] = {}  # by whether express: zones with their latest end

    def add(self, kept: Kept) -> None:
        """A reservation holds from now on."""
        self._put(self._next, kept)
        self._next += 1

    def list_hosts(self) -> list[int]:
        """All hosts that are kept for somebody."""
        return [host for kept in self.by_zone.values() for host in kept.booking.places]

    def _put(self, zone: int, kept: Kept) -> None:
        self.touched = True
        self.by_zone[zone] = kept
        self.by_row[kept.row] = zone
        self._count(kept, 1)
        self._rezone(kept.booking.places)

    def drop(self, row: int) -> tuple[int, Kept]:
        """The reservation of a workload, which has one, holds no longer."""
        self.touched = True
        zone = self.by_row.pop(row)
        kept = self.by_zone.pop(zone)
        self._count(kept, -1)
        self._rezone(kept.booking.places)
        return zone, kept

    def find(self, row: int) -> Kept:
        """The reservation of a workload that has one."""
        return self.by_zone[self.by_row[row]]

    def put_back(self, dropped: tuple[int, Kept]) -> None:
        """It holds again."""
        self._put(*dropped)

    def _count(self, kept: Kept, sign: int) -> None:
        self.funds.reserve(kept.path, kept.gpus * kept.contract_seconds, kept.gpus, kept.booking.at, sign)

    def _forget(self) -> None:
        """What is known of who may use what is void."""
        self._closed.clear()
        self._latest.clear()

    def _rezone(self, hosts: Iterable[int]) -> None:
        self._forget()
        for host in hosts:
            zones = [(kept.booking.at, zone) for zone, kept in self.by_zone.items() if host in kept.booking.places]
            self.floor.set_zone(host, min(zones)[1] if zones else 0)

    # ------------------------------------------------ who may use what

    def list_open(self, ends_at: int | None, express: bool = False) -> tuple[int, ...]:
        """Zones for work whose minimum runtime ends then (None: unallocated work, which may use all)."""
        if not self.by_zone:
            return EVERYBODY
        if ends_at is None:
            return (0, *self.by_zone)
        latest = self._latest.get(express)
        if latest is None:
            latest = self._latest[express] = [(zone, self._find_latest(zone, express)) for zone in self.by_zone]
        return (0, *[zone for zone, until_at in latest if ends_at <= until_at])

    def _find_latest(self, zone: int, express: bool) -> int:
        """R12, R7: express starts may move the time, once, together with those that depend on it."""
        at = self.by_zone[zone].booking.at
        if express and not any(kept.booking.moved for kept in self._list_moving(zone)):
            return at + self.policy.express_seconds
        return at

    def _list_moving(self, zone: int) -> list[Kept]:
        """The reservation and all later ones that wait for one of these for a host."""
        moving = [self.by_zone[zone]]
        later = sorted(self.by_zone.values(), key=lambda kept: (kept.booking.at, kept.booking.id))
        for kept in later:
            after = kept.booking.at >= moving[0].booking.at and kept not in moving
            if after and any(not kept.booking.places.keys().isdisjoint(one.booking.places) for one in moving):
                moving.append(kept)
        return moving

    def shift(self, zone: int) -> list[Kept]:
        """Move the times that an express start moves; the reservations that were moved."""
        self.touched = True
        moving = self._list_moving(zone)
        for kept in moving:
            self._count(kept, -1)
            kept.booking.at += self.policy.express_seconds
            kept.booking.moved = True
            self._count(kept, 1)
        self._forget()
        return moving

    def list_closed(self, zones: tuple[int, ...]) -> frozenset[int]:
        """Hosts in none of those zones."""
        if len(zones) > len(self.by_zone):
            return frozenset()
        known = self._closed.get(zones)
        if known is None:
            known = self._closed[zones] = frozenset(
                host for host, zone in enumerate(self.floor.zone) if zone not in zones
            )
        return known
