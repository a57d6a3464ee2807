"""TCP as Linux has it, in virtual time: its segments are frames that cross the network's links and switches, and are lost there.

Cumulative and selective acknowledgments, for every second segment (RFC 9293, RFC 2018); the retransmission timeout of RFC 6298,
200 ms at least; losses by RACK, and a probe of the tail (RFC 8985); proportional rate reduction (RFC 6937); CUBIC with HyStart. A
connection has few segments in its host's own queue (TCP small queues). Windows of receivers are not limited, and a connection
stands once it is made. After each spurious retransmission the sender widens RACK's reordering window. It restores the congestion
window where D-SACKs (RFC 2883, RFC 3708) or time stamps (RFC 3522, RFC 4015) show that the reduction was spurious.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from inalab.hosts.drivers.virtual_connections import VirtualConnection
from inalab.hosts.drivers.virtual_time import FOR_EVER, VirtualTime
from inalab.hosts.tcp.connection import Segments
from inalab.schemes.tcp import SEGMENT
from inalab.testbed.virtual.cubic import LEAST, Cubic
from inalab.testbed.virtual.frames import ACK, FIN, MOST_BLOCKS, PSH, RST
from inalab.testbed.virtual.frames import Segment as Received
from inalab.testbed.virtual.reassembly import Reassembly

ROUND = 1 << 32
TIMEOUT, LONGEST = 0.2, 120.0  # seconds: the least addition to a round trip, and the most in all
FIRST_TIMEOUT = 1.0  # seconds, before there was a round trip
MOST_BACKOFF = 1 << 14  # after 15 timeouts in a row it gives up (tcp_retries2)
DELAYED = 0.04  # seconds that an acknowledgment waits for a second segment
QUICK = 16  # segments of a connection's beginning that are acknowledged at once
TICK = 0.004  # seconds of the kernel's clock
REORDERED = 3  # segments that have come out of order, by which one is lost
MOST_STEPS = 255  # RACK.reo_wnd_mult: of the time in which what is overtaken may still come, quarters of the shortest round trip
PERSISTENT = 16  # RACK.reo_wnd_persist: recoveries after which they are one again
QUEUED = 2  # segments of a connection in its host's queue that keep it from sending more
TRUESIZE = 2304  # bytes that one of them counts as
TICKS = 1000  # of time stamps in a second


class Outlet(Protocol):
    """A host's end of its link."""

    def transmit(self, segment: Received, destination: str, left: Callable[[], None] | None) -> None:
        """Send a segment to an address; `left` is called when its frame has left the host."""
        ...


@dataclass(slots=True, eq=False)
class Flying:
    """A segment that is not acknowledged: what it covers, and when it was sent last."""

    begin: int
    end: int
    sent: float
    again: bool = False
    arrived: bool = False  # by a selective acknowledgment
    lost: bool = False


class TcpEnd(VirtualConnection):
    """One end. Sequence numbers count from 0 and are not wrapped; the end itself counts as a byte."""

    def __init__(self, time: VirtualTime, outlet: Outlet, port: int, peer: tuple[str, int]) -> None:
        super().__init__(time)
        self.outlet, self.port, self.peer = outlet, port, peer
        self.sent_segments = self.sent_again = self.came = 0
        # what is sent
        self.acknowledged = self.next = 0
        self.last: int | None = None  # where the end is, once it is to be sent
        self.flying: deque[Flying] = deque()
        self.cubic = Cubic()
        self.arrived = self.lost = 0  # of those that fly
        self.queued = 0  # in the host's own queue
        self.trip, self.deviation = 0.0, 0.0  # of round trips, smoothed; 0: not known
        self.newest = 0.0, 0  # when the latest segment that has come was sent, and its end
        self.newest_trip = 0.0
        self.recovering: int | None = None  # until this is acknowledged
        self.after_timeout = False  # likewise, after a timeout
        self.disordered = False  # RACK.reordering_seen: a segment came that others had overtaken, and that was sent once
        self.steps, self.adapted, self.persistent = 1, 0, 0  # see MOST_STEPS; RACK.dsack_round, its end; see PERSISTENT
        self.foremost = 0  # RACK.fack: the end of what has come, whatever lacks before it
        self.undone: tuple[float, float] | None = None  # window and threshold before they were reduced
        self.resent: set[int] = set()  # beginnings of segments that were sent again in the recovery, and have not come twice
        self.resent_at = 0  # when the first was, in ticks
        self.prior = self.recovered = self.reduced = 0.0  # of proportional rate reduction: the window before, come, and sent since
        self.most, self.full, self.usage = 0, False, 0  # under way at once in this window, whether the window was full, until when
        self.backoff = 1
        self.due, self.probing, self.reordering = FOR_EVER, False, FOR_EVER  # when the timer runs out, and what for
        self.timer_at = FOR_EVER  # when the clock calls
        self.probed = -1  # what was sent when the tail was probed
        self.rate, self.paced = 0.0, 0.0  # bytes a second, and when the next segment may leave
        self.pacing = False  # whether one waits for that
        self.idle_since = time.now
        self.patience = FOR_EVER  # seconds that bytes may stay unacknowledged
        self.heard = time.now  # when something came
        self.moved = time.now  # when the last were acknowledged, or the first of those that are not was sent
        # what comes
        self.coming, self.stamp = Reassembly(), 0
        self.twice: tuple[int, int] | None = None  # what has come once more, and nobody was told of yet
        self.unacknowledged, self.quick = 0, QUICK
        self.answer_at = FOR_EVER

    # --- what its user does

    def unsent(self) -> int:
        return self._last() - self.next

    def _last(self) -> int:
        """Behind the last byte."""
        return self.acknowledged + len(self.outgoing) if self.last is None else self.last

    def finish(self) -> None:
        if not self.finished and not self.broken:
            self.last = self._last()
            super().finish()

    def reset(self) -> None:
        self._emit(self.next, b"", RST)

    def notice_silence(self, seconds: float) -> None:
        self.patience = seconds
        self._keep_alive()

    def pace(self, rate: float) -> None:
        self.rate = rate

    def segments(self) -> Segments:
        return Segments(self.sent_segments, self.sent_again, self.sent_segments + self.came)

    # --- sending

    def pump(self) -> None:
        now = self.time.now
        if self.broken:
            return
        if not self.flying and self.unsent() > 0:
            self.cubic.paused(now - self.idle_since, self._timeout())
        while self.queued < self._queue() and self._under_way() < int(self.cubic.window):
            if self.rate and now < self.paced:
                self._wait_for_pace()
                break
            if not self._send_next():
                break
        self._note_use()

    def _room_of_blocks(self) -> int:
        """Bytes that selective acknowledgments take in a header."""
        blocks = len(self.coming.blocks()) + (self.twice is not None)
        return 4 + 8 * min(blocks, MOST_BLOCKS) if blocks else 0

    def _wait_for_pace(self) -> None:
        def go_on() -> None:
            self.pacing = False
            self.pump()

        if not self.pacing:
            self.pacing = True
            self.time.at(self.paced, go_on)

    def _send_next(self) -> bool:
        """A segment: one that is lost, or a new one; False where there is none."""
        if self.lost:
            self._send_again(next(one for one in self.flying if one.lost))
            return True
        if self.next < self._last() or self.next == self.last:
            behind = min(self.next + SEGMENT - self._room_of_blocks(), self._last())
            one = Flying(self.next, behind + (behind == self.last), self.time.now)
            self.moved = self.moved if self.flying else self.time.now
            self.flying.append(one)
            self.next = one.end
            self._put(one)
            if self.due == FOR_EVER or self.probing:
                self._set_timer()
            return True
        return False

    def _send_again(self, one: Flying, probe: bool = False) -> None:
        if one.lost:
            one.lost = False
            self.lost -= 1
        one.again, one.sent = True, self.time.now
        self.sent_again += 1
        if self.recovering is not None and not probe:
            self.resent_at = self.resent_at or int(self.time.now * TICKS)
            self.resent.add(one.begin)
        self._put(one)

    def _put(self, one: Flying) -> None:
        begin = one.begin - self.acknowledged
        octets = bytes(self.outgoing[begin : begin + one.end - one.begin])
        ends = len(octets) < one.end - one.begin
        self.queued += 1
        self.reduced += 1
        if self.rate:
            self.paced = max(self.paced, self.time.now) + len(octets) / self.rate
        self._emit(one.begin, octets, (FIN if ends else 0) | (PSH if one.end >= self._last() else 0), self._has_left)

    def _has_left(self) -> None:
        self.queued -= 1
        self.pump()
        self.changed()

    def _emit(self, sequence: int, octets: bytes, flags: int, left: Callable[[], None] | None = None) -> None:
        """Send a segment, which acknowledges what has come."""
        self.unacknowledged, self.answer_at = 0, FOR_EVER
        self.quick = max(0, self.quick - 1)
        self.sent_segments += 1
        found = [*([self.twice] if self.twice else []), *self.coming.blocks()]
        blocks, self.twice = [(begin % ROUND, end % ROUND) for begin, end in found], None
        made = Received(
            self.port, self.peer[1], sequence % ROUND, self.coming.expected % ROUND, flags | ACK, blocks, octets,
            int(self.time.now * TICKS), self.stamp,
        )  # fmt: skip
        self.outlet.transmit(made, self.peer[0], left)

    def _under_way(self) -> int:
        """Segments that are believed to be."""
        return len(self.flying) - self.arrived - self.lost

    def _queue(self) -> float:
        """Segments that may be in the host's own queue: more where a millisecond takes more."""
        if not self.trip:
            return QUEUED
        pacing = (2.0 if self.cubic.window < self.cubic.threshold / 2 else 1.2) * self.cubic.window * SEGMENT / self.trip
        return max(QUEUED, pacing / 1024 / TRUESIZE)

    def _note_use(self) -> None:
        """Whether the window limits what is sent: only then does it grow."""
        full = self._under_way() >= int(self.cubic.window)
        if self.acknowledged >= self.usage or len(self.flying) > self.most or (full and not self.full):
            self.most, self.full, self.usage = len(self.flying), full, self.next

    def _limited(self) -> bool:
        return self.full or (self.cubic.slow_start and self.cubic.window < 2 * self.most)

    # --- acknowledgments

    def arrive(self, segment: Received) -> None:
        """A segment has come."""
        self.came += 1
        if self.broken:
            if not segment.flags & RST:
                self.reset()
            return
        self.heard = self.time.now
        if segment.flags & RST:
            self.break_off(errno.ECONNRESET)
            return
        begin = _near(segment.sequence, self.coming.expected)
        if begin <= self.coming.expected:  # RFC 7323, section 4.3
            self.stamp = segment.stamp
        if self.closed and segment.octets and begin + len(segment.octets) > self.coming.expected:  # and is not a late copy
            self.break_off(errno.ECONNABORTED)
            self.reset()
            return
        self._take_acknowledgment(segment)
        if segment.octets or segment.flags & FIN:
            self._take(begin, segment.octets, bool(segment.flags & FIN))
        elif begin < self.coming.expected:  # the other end asks whether this one is there
            self._answer()
        self.pump()
        self.changed()

    def _take_acknowledgment(self, segment: Received) -> None:
        acknowledged, now = _near(segment.acknowledges, self.acknowledged), self.time.now
        if acknowledged > self.next:
            return
        foremost, advances = self.foremost, acknowledged > self.acknowledged
        came = self._advance(acknowledged, now) if advances else []
        blocks = [(_near(left, acknowledged), _near(right, acknowledged)) for left, right in segment.blocks]
        spurious = False
        if _twice(blocks, acknowledged):
            spurious, blocks = self._doubled(blocks[0][0]), blocks[1:]
        for begin, end in blocks:
            covered = [one for one in self.flying if not one.arrived and begin <= one.begin and one.end <= end]
            for one in covered:
                one.arrived = True
                self.arrived += 1
            came += covered
        self.foremost = max(foremost, acknowledged, *(end for _, end in blocks))
        for one in came:
            self.disordered |= not one.again and one.end < foremost
            self.lost -= one.lost
            one.lost = False
            if (one.sent, one.end) > self.newest and not (one.again and now - one.sent < self.cubic.shortest):
                self.newest, self.newest_trip = (one.sent, one.end), now - one.sent
        if came and not any(one.again for one in came):  # else it may have come long ago
            self._measure(now - came[-1].sent, now)
        delayed = self.recovering is not None and advances and segment.echo < self.resent_at
        if self.undone and self._needless(spurious, delayed):
            self._undo()
        if came:
            self._settle(len(came), now)

    # --- what was not lost

    def _doubled(self, begin: int) -> bool:
        """The segment that begins here has come twice; whether because it was sent again, and not as a probe. Then what is
        overtaken is waited for longer, once a round trip."""
        if begin not in self.resent:
            return False
        self.resent.remove(begin)
        if self.acknowledged >= self.adapted:
            self.steps, self.adapted, self.persistent = min(self.steps + 1, MOST_STEPS), self.next, PERSISTENT
        return True

    def _needless(self, spurious: bool, delayed: bool) -> bool:
        """Whether nothing was lost: the last of what was sent again has come twice; or, in a recovery, what came is older than that
        (`delayed`), and none of it is under way."""
        return (spurious and not self.resent) or (delayed and not any(one.again and not one.arrived for one in self.flying))

    def _undo(self) -> None:
        assert self.undone is not None
        window, threshold = self.undone
        self.cubic.window, self.cubic.threshold = max(self.cubic.window, window), max(self.cubic.threshold, threshold)
        for one in self.flying:
            one.lost = False
        self.lost, self.undone = 0, None
        if self.recovering is not None:
            self._recovered()

    def _recovered(self) -> None:
        """A recovery is over."""
        self.recovering, self.after_timeout = None, False
        self.persistent = max(0, self.persistent - 1)
        self.steps = self.steps if self.persistent else 1

    def _reduced(self) -> None:
        """Remember what the window is before it is reduced, and count what is sent again from now on."""
        if self.recovering is None:
            self.undone, self.resent, self.resent_at = (self.cubic.window, self.cubic.threshold), set(), 0

    def _advance(self, acknowledged: int, now: float) -> list[Flying]:
        """All before this has come; what was not known to have."""
        came = []
        while self.flying and self.flying[0].end <= acknowledged:
            one = self.flying.popleft()
            self.arrived -= one.arrived
            if not one.arrived:
                came.append(one)
        del self.outgoing[: acknowledged - self.acknowledged]
        self.acknowledged, self.moved, self.backoff = acknowledged, now, 1
        if not self.flying:
            self.idle_since = now
        return came

    def _measure(self, seconds: float, now: float) -> None:
        """A round trip (RFC 6298)."""
        if not self.trip:
            self.trip, self.deviation = seconds, seconds / 2
        self.deviation += (abs(self.trip - seconds) - self.deviation) / 4
        self.trip += (seconds - self.trip) / 8
        self.cubic.round_trip(seconds, now, self.acknowledged, self.next)

    def _settle(self, came: int, now: float) -> None:
        """So many segments have come: look for losses, and let the window follow."""
        if self.recovering is not None and self.acknowledged >= self.recovering:
            if not self.after_timeout:
                self.cubic.window = max(self.cubic.threshold, LEAST)
            self._recovered()
        self._look_for_losses(now)
        if self.recovering is not None and not self.after_timeout:
            self._reduce(came)
        elif self.after_timeout or self._limited():
            self.cubic.acknowledged(came, now)
        self._set_timer()

    # --- losses

    def _look_for_losses(self, now: float) -> None:
        """Those that were sent before what has come are lost, at once or after a moment in which they may still come."""
        self.reordering = FOR_EVER
        if not self.arrived and self.recovering is None:
            return
        sent, end = self.newest
        moment = min(self.cubic.shortest / 4 * self.steps, self.trip or FOR_EVER)
        if not self.disordered and (self.recovering is not None or self.arrived >= REORDERED):
            moment = 0.0
        for one in self.flying:
            if one.arrived or one.lost or (one.sent, one.end) >= (sent, end):
                continue
            due = one.sent + self.newest_trip + moment
            if due <= now or not moment:
                self._lose(one)
            else:
                self.reordering = min(self.reordering, due)
        if self.lost and self.recovering is None:
            self._reduced()
            self.cubic.lost()
            self.recovering, self.prior, self.recovered, self.reduced = self.next, self.cubic.window, 0.0, 0.0

    def _lose(self, one: Flying) -> None:
        one.lost = True
        self.lost += 1

    def _reduce(self, came: int) -> None:
        """Proportional rate reduction."""
        self.recovered += came
        threshold, under_way = self.cubic.threshold, self._under_way()
        if under_way > threshold:
            more = -(-self.recovered * threshold // self.prior) - self.reduced
        else:
            more = min(threshold - under_way, max(self.recovered - self.reduced, came) + 1)
        self.cubic.window = under_way + max(more, 0.0 if self.reduced else 1.0)

    def _timeout(self) -> float:
        if not self.trip:
            return FIRST_TIMEOUT
        return min(LONGEST, self.backoff * (self.trip + max(4 * self.deviation, TIMEOUT)))

    def _set_timer(self) -> None:
        now = self.time.now
        if not self.flying:
            self.due = FOR_EVER
        elif self.reordering < FOR_EVER:
            self.due = self.reordering
        else:
            self.due, self.probing = now + self._timeout(), False
            if self._may_probe():
                probe = now + 2 * self.trip + (TIMEOUT if len(self.flying) == 1 else 2 * TICK)
                self.due, self.probing = min(probe, self.due), True
        if self.due < self.timer_at:
            self._call_timer()

    def _call_timer(self) -> None:
        """When it runs out; an earlier call for another time is void."""
        self.timer_at = self.due
        self.time.at(self.due, self._timer, self.due)

    def _may_probe(self) -> bool:
        """Whether a lost tail may be probed for: once, and where nothing is known to be lost."""
        well = self.recovering is None and not self.arrived and self.backoff == 1
        return well and self.trip > 0 and self.probed <= self.acknowledged

    def _timer(self, at: float) -> None:
        if at != self.timer_at:
            return
        self.timer_at = FOR_EVER
        if self.broken or not self.flying:
            return
        now = self.time.now
        if now < self.due:
            self._call_timer()
        elif self.reordering <= now:
            self._look_for_losses(now)
            if self.recovering is not None and not self.after_timeout:
                self._reduce(0)
            self._set_timer()
            self.pump()
        elif self.probing:
            if self.lost or not self._send_next():
                self._send_again(self.flying[-1], probe=True)
            self.probed = self.next
            self._set_timer()
        else:
            self._time_out(now)

    def _time_out(self, now: float) -> None:
        if now - self.moved > self.patience or self.backoff > MOST_BACKOFF:
            self.break_off(errno.ETIMEDOUT)
            return
        if self.recovering is None:
            self._reduced()
            self.cubic.lost()
        self.cubic.window = 1.0
        self.recovering, self.after_timeout, self.backoff = self.next, True, 2 * self.backoff
        for one in self.flying:
            if not one.arrived and not one.lost:
                self._lose(one)
        self.pump()
        self._set_timer()

    def _keep_alive(self) -> None:
        """After a third of the patience without a segment ask whether the other end is there, and again after every sixth."""
        now, due = self.time.now, self.heard + self.patience / 3
        if self.broken or (self.closed and self.ended):
            return
        if now >= self.heard + self.patience and not self.flying:
            self.break_off(errno.ETIMEDOUT)
            return
        if now >= due and not self.flying:
            self._emit(self.next - 1, b"", 0)
        self.time.at(now + self.patience / 6 if now >= due else due, self._keep_alive)

    # --- what comes

    def _take(self, begin: int, octets: bytes, ends: bool) -> None:
        came = self.coming
        if octets and came.has(begin, begin + len(octets)):
            self.twice = begin, begin + len(octets)
        fresh, at_once = came.take(begin, octets, ends)
        self.incoming += fresh
        self.ended = came.ended
        self.unacknowledged += len(fresh)
        if at_once or self.quick or self.unacknowledged > SEGMENT:
            self._answer()
        elif self.answer_at == FOR_EVER:
            self.answer_at = self.time.now + DELAYED
            self.time.at(self.answer_at, self._answer_late, self.answer_at)

    def _answer(self) -> None:
        self._emit(self.next, b"", 0)

    def _answer_late(self, at: float) -> None:
        if at == self.answer_at and not self.broken:
            self._answer()


def _twice(blocks: list[tuple[int, int]], acknowledged: int) -> bool:
    """Whether the first block is of what came twice (RFC 2883): of what is acknowledged, or within the second block."""
    return bool(blocks) and (blocks[0][1] <= acknowledged or (len(blocks) > 1 and _within(*blocks[:2])))


def _within(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return other[0] <= one[0] and one[1] <= other[1]


def _near(number: int, known: int) -> int:
    """The number that is this modulo 2^32, and nearest to one that is known."""
    return known + (number - known + ROUND // 2) % ROUND - ROUND // 2
