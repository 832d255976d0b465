"""R1 to R7 and R9 reckoned a second time: plainly, by fractions, with no code of `scheduler`.

Slow and simple on purpose. It reads the facts as a decision left them and says what could
still be done by the letter of the rules. Without a half-life.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from scheduler.types import NEVER, PPM, Policy, Snapshot, Standing

Node = tuple[int, bool]
"""A project's index, and whether what it holds for its own work is meant."""


class Oracle:
    """Balances, room and licences of one moment."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self.snapshot, self.policy, self.now = snapshot, policy, snapshot.now
        self.parent = snapshot.projects.parent.tolist()
        self.children = {p: [c for c, up in enumerate(self.parent) if up == p] for p in range(len(self.parent))}
        self.steps = self._read_steps()
        self.since = self.now - policy.lookback_seconds
        self.bookings = self._read_bookings()
        self.free = self._count_free()
        self._quotas: dict[Node, Fraction] = {}
        self._usage: dict[Node, int] = {}

    # ------------------------------------------------ the tree (R1)

    def _read_steps(self) -> dict[int, list[tuple[int, int, int]]]:
        shares = self.snapshot.shares
        rows = zip(
            *(getattr(shares, name).tolist() for name in ("project", "at", "share_ppm", "burst_gpus")), strict=True
        )
        steps: dict[int, list[tuple[int, int, int]]] = {}
        for project, at, share, burst in sorted(rows):
            steps.setdefault(project, []).append((at, share, burst))
        return steps

    def path(self, project: int) -> list[Node]:
        """Nodes below the root that the project's own work is charged to, top first."""
        nodes = [(project, True)] if self.children[project] else []
        while self.parent[project] != NEVER:
            nodes.append((project, False))
            project = self.parent[project]
        return nodes[::-1]

    def part(self, node: Node, moment: int, first_budget: int = 0) -> Fraction:
        """The node's part of its parent's share then."""
        project, own = node
        if own:
            given = sum((self.part((child, False), moment) for child in self.children[project]), Fraction())
            return max(1 - given, Fraction())
        steps = self.steps.get(project, [])
        past = [share for at, share, _ in steps if at <= moment]
        if not past and steps and moment >= steps[0][0] - first_budget:
            past = [steps[0][1]]
        return Fraction(past[-1], PPM) if past else Fraction()

    def share(self, node: Node, moment: int, first_budget: int = 0) -> Fraction:
        """Of the cluster."""
        project, own = node
        above = [one for one in self.path(project) if not one[1] and (own or one[0] != project)]
        product = self.part(node, moment, first_budget)
        for one in above:
            product *= self.part(one, moment, first_budget)
        return product

    def cap(self, node: Node) -> int | None:
        """Its burst cap now."""
        bursts = [burst for at, _, burst in self.steps.get(node[0], []) if at <= self.now]
        return None if node[1] or not bursts or bursts[-1] == NEVER else bursts[-1]

    # ------------------------------------------------ quota, usage, balance (R2, R3)

    def gpus_at(self, moment: int) -> int:
        """Schedulable GPUs then."""
        rows = sorted(zip(self.snapshot.capacity.at.tolist(), self.snapshot.capacity.gpus.tolist(), strict=True))
        past = [gpus for at, gpus in rows if at <= moment]
        return past[-1] if past else 0

    def quota(self, node: Node) -> Fraction:
        """R2's Q, piece by piece between the moments at which anything changes."""
        if node not in self._quotas:
            early = self.policy.first_budget_seconds
            moments = {self.since, self.now, *self.snapshot.capacity.at.tolist()}
            for steps in self.steps.values():
                moments |= {at for at, _, _ in steps} | {steps[0][0] - early}
            cuts = sorted(at for at in moments if self.since <= at <= self.now)
            pieces = list(zip(cuts, cuts[1:], strict=False))
            open_seconds = sum(high - low for low, high in pieces if self.gpus_at(low))
            if open_seconds:
                total = sum(
                    (self.share(node, low, early) * self.gpus_at(low) * (high - low) for low, high in pieces),
                    Fraction(),
                )
                self._quotas[node] = total * self.policy.lookback_seconds / open_seconds
            else:
                self._quotas[node] = self.share(node, self.now) * self.gpus_at(self.now) * self.policy.lookback_seconds
        return self._quotas[node]

    def usage(self, node: Node) -> int:
        """R2's U: charged in the window, and the unserved contracts of protected attempts."""
        if node not in self._usage:
            self._usage[node] = self._charged(node) + self._under_way(node)
        return self._usage[node]

    def _charged(self, node: Node) -> int:
        rows, ids = self.snapshot.charged, self.snapshot.projects.id
        name, total = int(ids[node[0]]), 0
        for number in range(len(rows.path)):
            path = self.snapshot.paths[int(rows.path[number])]
            if path[-1] == name if node[1] else name in path:
                start, end = max(int(rows.start_at[number]), self.since), min(int(rows.end_at[number]), self.now)
                total += max(end - start, 0) * int(rows.gpus[number])
        return total

    def _under_way(self, node: Node) -> int:
        attempts, total = self.snapshot.attempts, 0
        for row in range(len(attempts.id)):
            standing = int(attempts.standing[row])
            if node not in self.path(int(attempts.project[row])):
                continue
            gpus = self.gpus_of(row)
            if standing in (Standing.PROTECTED, Standing.FUNDED) and int(attempts.segment_at[row]) != NEVER:
                total += gpus * max(self.now - max(int(attempts.segment_at[row]), self.since), 0)
            if standing == Standing.PROTECTED:
                total += gpus * self.unserved(row)
        return total

    def gpus_of(self, row: int) -> int:
        """All GPUs of an attempt's gang."""
        return int(self.snapshot.attempts.replicas[row] * self.snapshot.attempts.gpus_per_replica[row])

    def unserved(self, row: int) -> int:
        """Seconds of its minimum runtime that an attempt has still to run."""
        attempts = self.snapshot.attempts
        running_at = int(attempts.running_at[row])
        served = max(self.now - running_at, 0) if running_at != NEVER else 0
        return max(int(attempts.contract_seconds[row]) - served, 0)

    def balance(self, node: Node, charge: int = 0) -> Fraction | None:
        """(Q - U) / Q; None: no share now, or no quota."""
        quota = self.quota(node)
        if quota == 0 or self.share(node, self.now) == 0:
            return None
        return (quota - self.usage(node) - charge) / quota

    def allocated(self, node: Node) -> int:
        """GPUs that its protected and funded attempts run on or are held for."""
        attempts = self.snapshot.attempts
        return sum(
            self.gpus_of(row)
            for row in range(len(attempts.id))
            if int(attempts.standing[row]) in (Standing.PROTECTED, Standing.FUNDED)
            and node in self.path(int(attempts.project[row]))
        )

    # ------------------------------------------------ reservations (R12)

    def _read_bookings(self) -> list[tuple[int, int, dict[int, int]]]:
        """(row of Pending, time, replicas by host) of every reservation whose workload waits."""
        if self.snapshot.reserved is None:
            return []
        table, places = self.snapshot.reserved.reservations, self.snapshot.reserved.places
        row_of = {int(number): row for row, number in enumerate(self.snapshot.pending.id)}
        bookings = []
        for number in range(len(table.id)):
            mine = places.reservation == number
            hosts = dict(zip(places.host[mine].tolist(), places.replicas[mine].tolist(), strict=True))
            if int(table.workload[number]) in row_of:
                bookings.append((row_of[int(table.workload[number])], int(table.at[number]), hosts))
        return bookings

    def is_booked(self, row: int) -> bool:
        """Whether the workload holds a reservation."""
        return any(booked == row for booked, _, _ in self.bookings)

    def contract(self, row: int) -> int:
        """GPU-seconds of a waiting workload's contract."""
        return self.gpus_asked(row) * int(self.snapshot.pending.min_runtime_seconds[row])

    def gpus_asked(self, row: int) -> int:
        """GPUs of a waiting workload's gang."""
        return int(self.snapshot.pending.replicas[row] * self.snapshot.pending.gpus_per_replica[row])

    def ends_at(self, row: int) -> int:
        """By when a start now has surely run its minimum."""
        return self.now + self.policy.start_allowance_seconds + int(self.snapshot.pending.min_runtime_seconds[row])

    # ------------------------------------------------ who is funded (R7)

    def has_burst_room(self, row: int) -> bool:
        """Under every burst cap, beside what reservations will need by its end."""
        project = int(self.snapshot.pending.project[row])
        for node in self.path(project):
            cap = self.cap(node)
            soon = sum(
                self.gpus_asked(booked)
                for booked, at, _ in self.bookings
                if booked != row
                and at < self.ends_at(row)
                and node in self.path(int(self.snapshot.pending.project[booked]))
            )
            if cap is not None and self.allocated(node) + soon + self.gpus_asked(row) > cap:
                return False
        return True

    def is_funded(self, row: int) -> bool:
        """R7, burst caps aside, for a waiting workload without a reservation."""
        if int(self.snapshot.pending.min_runtime_seconds[row]) == 0:
            return False
        limit = -Fraction(self.policy.overdraw_limit_ppm, PPM)
        for node in self.path(int(self.snapshot.pending.project[row])):
            kept = sum(
                self.contract(booked)
                for booked, _, _ in self.bookings
                if node in self.path(int(self.snapshot.pending.project[booked]))
            )
            now, then = self.balance(node, kept), self.balance(node, kept + self.contract(row))
            if now is None or then is None or now <= 0 or then < limit:
                return False
        return True

    # ------------------------------------------------ where there is room (R10, R13)

    def _count_free(self) -> list[int]:
        """By host: GPUs that nothing occupies and nobody waits for; 0 on hosts that take nothing."""
        hosts, attempts, sits = self.snapshot.hosts, self.snapshot.attempts, self.snapshot.placements
        free = hosts.gpus.tolist()
        coming: dict[tuple[int, int], int] = {}
        rows = list(zip(sits.attempt.tolist(), sits.host.tolist(), sits.replicas.tolist(), strict=True))
        for attempt, host, replicas in rows:
            if int(attempts.taker[attempt]) != NEVER:
                key = int(attempts.taker[attempt]), host
                coming[key] = coming.get(key, 0) + replicas * int(attempts.gpus_per_replica[attempt])
        for attempt, host, replicas in rows:
            gpus = replicas * int(attempts.gpus_per_replica[attempt])
            held = int(attempts.segments_at[attempt]) == NEVER
            free[host] -= max(gpus - coming.get((int(attempts.id[attempt]), host), 0), 0) if held else gpus
        closed = ~hosts.schedulable | np.isin(hosts.id, self.snapshot.draining)
        return [0 if shut else max(left, 0) for left, shut in zip(free, closed.tolist(), strict=True)]

    def is_open(self, host: int, row: int, ends_at: int) -> bool:
        """R12: no reservation of another needs the host before then."""
        return all(booked == row or host not in hosts or at >= ends_at for booked, at, hosts in self.bookings)

    def fits(self, row: int, room: list[int]) -> bool:
        """Whether hosts with that much room can hold the whole gang."""
        pending = self.snapshot.pending
        gpus = int(pending.gpus_per_replica[row])
        return sum(one // gpus for one in room) >= int(pending.replicas[row])

    def room_for(self, row: int, ends_at: int | None) -> list[int]:
        """Free GPUs by host where a start may use them; None: unallocated work, which reservations don't hinder."""
        return [
            gpus if ends_at is None or self.is_open(host, row, ends_at) else 0 for host, gpus in enumerate(self.free)
        ]

    # ------------------------------------------------ licences (R9)

    def may_take(self, row: int, attempt: int) -> bool:
        """Whether a funded start of the waiting workload may take the attempt."""
        pending, attempts = self.snapshot.pending, self.snapshot.attempts
        standing, theirs = int(attempts.standing[attempt]), int(attempts.project[attempt])
        mine = int(pending.project[row])
        if standing == Standing.UNALLOCATED:
            own = bool(attempts.lapsed[attempt]) and mine == theirs
            return not own or int(attempts.priority[attempt]) < int(pending.priority[row])
        if standing != Standing.FUNDED:
            return False
        if mine == theirs:
            return int(attempts.priority[attempt]) < int(pending.priority[row])
        return self.leads(row, theirs)

    def leads(self, row: int, other: int) -> bool:
        """R9 (c): charged for the contract, at least half an hour (policy), still ahead where the paths part."""
        pending = self.snapshot.pending
        seconds = max(int(pending.min_runtime_seconds[row]), self.policy.licence_floor_seconds)
        charge = seconds * self.gpus_asked(row)
        pairs = zip(self.path(int(pending.project[row])), self.path(other), strict=False)
        mine, theirs = next((one, two) for one, two in pairs if one != two)
        ahead, behind = self.balance(mine, charge), self.balance(theirs)
        if ahead is None or behind is None:
            return ahead is not None
        return ahead - behind >= Fraction(self.policy.licence_margin_ppm, PPM)

    def gpus_on(self, attempt: int, host: int) -> int:
        """GPUs that an attempt has on a host."""
        sits = self.snapshot.placements
        there = (sits.attempt == attempt) & (sits.host == host)
        return int(sits.replicas[there].sum() * self.snapshot.attempts.gpus_per_replica[attempt])
