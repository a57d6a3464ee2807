"""What a simulated network consists of: arrays that compiled loops share, by name.

Nodes are numbered: workers by rank over all jobs, then switches, then servers; hosts are workers and servers. What a job sends
goes along a tree of nodes: SwitchML's towards the switch where all meet, ATP's towards each of the servers. A link has two
directions, UP and DOWN. Times are in seconds.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, cast, get_type_hints

import numba
import numba.extending
import numpy as np
from numpy.typing import NDArray

from inalab.hosts.compiled import compiled
from inalab.testbed.simulator.events import push

UP, DOWN = 0, 1
START, WAKE, TIMER, PACKET = range(4)  # what an event is: (number of a worker or packet) * EVENTS + which
EVENTS = 4
SIZE, ORDER, HAPPENED, FREE, FULL = range(5)  # `state`: events in the heap, pushed, taken out; the first free packet; no room left
STATES = 5
UPDATE, RESULT, QUERY, STATUS = range(4)  # kinds of packets; the first two carry a vector
SWITCHML, ATP = range(2)  # of a job
ABOVE = -1  # in place of a child
NOWHERE = -1  # in place of a link
NEVER_LATE = -1.0  # in place of the time that a packet is due: nothing urgent delays it

PACKET_FIELDS = np.dtype(  # small, for there are many
    [
        ("chunk", "i8"),
        ("seen", "i8"),  # of a status: bits of the children that are in; of ATP: bitmap1
        ("zero", "i8"),  # bitmap0, of ATP
        ("start", "f8"),  # when it begins to cross a host's link, if nothing urgent comes,
        ("due", "f8"),  # and when it arrives; or NEVER_LATE
        ("kind", "i4"),  # of a free one: which is the next free one
        ("job", "i4"),
        ("tree", "i4"),
        ("node", "i4"),  # where it arrives
        ("link", "i4"),  # that it crosses upwards, which may lose it; or NOWHERE
        ("following", "i4"),  # on that link, -1: none
        ("child", "i4"),  # of that node, which sends it; or ABOVE
        ("slot", "i4"),  # of a pool, or the aggregator
        ("mark", "i4"),  # SwitchML's, or the flags of ATP
        ("tries", "i4"),  # of a query and its status
        ("next", "i4"),  # of a result of ATP: the aggregator of the chunk one window later
        ("goal", "i4"),  # of ATP: the node that it is for; of a query: that asks
    ]
)
LINK_FIELDS = np.dtype(
    [
        ("vector", "f8"),  # time of a packet with a vector
        ("header", "f8"),  # and of one without
        ("busy", "f8"),  # until when
        ("pace", "f8"),  # between two packets that leave the switch's queue before it, where that has a rate
        ("paced", "f8"),  # when the next one may
        ("seed", "i8"),  # of losses
        ("numbered", "i8"),  # packets so far
        ("lost", "i8"),
        ("dropped", "i8"),  # because the queue before it was full
        ("depth", "i8"),  # of that queue, in packets; 0: it holds all
        ("deep", "i8"),  # from how many packets on it marks them; 0: never
        ("bad", "i8"),  # the state of Gilbert and Elliott
        ("head", "i8"),  # of a host's packets that are not urgent: the first that has not arrived, -1: none
        ("tail", "i8"),
    ]
)
TREE_FIELDS = np.dtype(
    [
        ("above", "i8"),  # the node above it, -1: none
        ("child", "i8"),  # its number there
        ("link", "i8"),  # to that
        ("way", "i8"),  # to that, UP or DOWN
        ("first", "i8"),  # of its own children, among World.children
        ("count", "i8"),
        ("everyone", "i8"),  # bits of all its children
        ("level", "i8"),  # of a switch of ATP: testbed.simulator.atp.aggregators
        ("fan_in", "i8"),  # of that: how many children a whole sum has
        ("zero", "i8"),  # bits of a worker's own packets; of a switch in a remote rack `one` alone, the rack's
        ("one", "i8"),
    ]
)
JOB_FIELDS = np.dtype(
    [
        ("scheme", "i8"),
        ("slots", "i8"),  # of its pool, or its window
        ("base", "i8"),  # of its cells in each switch
        ("chunks", "i8"),  # of a sum
        ("sums", "i8"),
        ("exponents", "i8"),  # 1: chunks have exponents, which go ahead
        ("asks", "i8"),  # recovery, 1: ask; 0: send again as the paper does
        ("near", "i8"),  # 1: an answer may be that of the next switch, where others are behind it
        ("tree", "i8"),  # its first one
        ("paths", "i8"),  # of its streams: trees, one for each server
        ("first", "i8"),  # of its workers
        ("size", "i8"),  # how many there are
        ("aggregators", "i8"),  # of each switch that it takes from
        ("control", "i8"),  # of its congestion windows: testbed.simulator.atp.congestion
    ]
)
CELL_FIELDS = np.dtype([("chunk", "i8"), ("seen", "i8"), ("final", "i8"), ("asker", "i8")])
AGGREGATOR_FIELDS = np.dtype(
    [
        ("job", "i8"),  # and its chunk: whose it is
        ("chunk", "i8"),
        ("seen", "i8"),  # bits of the children that are in; 0: free
        ("ecn", "i8"),
        ("again", "i8"),  # 1: some of it was sent again for an answer
        ("asked", "i8"),  # 1: a query has gone on
        ("touched", "f8"),
        ("refused_job", "i8"),  # who has last found it taken
        ("refused_chunk", "i8"),
        ("finished_job", "i8"),  # whose result has passed last
        ("finished_chunk", "i8"),
    ]
)
SERVER_FIELDS = np.dtype(
    [
        ("job", "i8"),
        ("tree", "i8"),
        ("busy", "f8"),
        ("arrived", "i8"),
        ("woken", "i8"),
        ("before", "i8"),  # the last chunk whose result went to all, -1: none
        ("before_that", "i8"),
        ("local", "i8"),  # its rack
        ("racks", "i8"),
    ]
)
ROW_FIELDS = np.dtype(  # of a server: a chunk, of the last two of each place
    [
        ("chunk", "i8"),
        ("complete", "i8"),
        ("done", "i8"),  # 1: since the batch that is looked at
        ("flags", "i8"),  # of all that was added
        ("slot", "i8"),  # the aggregator; as the next four, of its result
        ("next", "i8"),
        ("mark", "i8"),
        ("before", "i8"),
        ("before_that", "i8"),
    ]
)
WORKER_FIELDS = np.dtype(
    [
        ("job", "i8"),
        ("busy", "f8"),  # until when its processor is
        ("sum", "i8"),  # under way, or next
        ("position", "i8"),  # of the chunks that may be sent
        ("remaining", "i8"),  # chunks of the sum without a result
        ("arrived", "i8"),  # packets in its inbox
        ("woken", "i8"),  # 1: it is going to look at them
        ("timer_at", "f8"),  # when its timer rings
        ("sent", "i8"),  # packets with a vector
        ("results", "i8"),
        ("duplicates", "i8"),
        ("timeouts", "i8"),
        ("retransmissions", "i8"),
        ("queries", "i8"),
        ("waited", "f8"),  # for results, all together
        ("heard_at", "f8"),  # as in hosts.stream.stream
        ("timed_out_at", "f8"),
        ("probing", "i8"),  # as in hosts.stream.recovery
        ("silence", "i8"),
        ("margin", "f8"),  # of the stream's timers
        ("in_order", "i8"),  # no packet that was sent before this one waits for its result
        ("gaps", "i8"),  # 1: results have overtaken some that wait
        ("latest", "f8"),  # no deadline is after this
        ("earlier", "i8"),  # 1: a deadline may be before the timer rings
        ("window", "f8"),  # as in hosts.atp.congestion
        ("recover", "i8"),
        ("suspect", "i8"),  # a chunk, -1: none
        ("restored", "f8"),  # the window before that seemed lost
    ]
)
TIMER_FIELDS = np.dtype(
    [
        ("srtt", "f8"),
        ("variation", "f8"),
        ("doublings", "f8"),
        ("doubled_at", "f8"),
        ("samples", "i8"),
        ("heard_on", "f8"),  # of a path, as in hosts.stream.stream
        ("sampled_on", "f8"),
    ]
)
SUM_FIELDS = np.dtype(
    [("compute", "f8"), ("begun", "f8"), ("ended", "f8"), ("waited", "f8"), ("results", "i8"), ("retransmissions", "i8")]
)
# a worker's slots (hosts.stream.stream, hosts.switchml.worker, hosts.atp.worker, hosts.stream.recovery), integers and times
NEXT, CHUNK, PATH, SENDING, TRIES, OVERTAKEN, ASKED, PRESSED, INFORMED = range(9)
ROUND, AHEAD, ANNOUNCED = range(9, 12)  # SwitchML's
INDEX, MISSED, MARK = range(9, 12)  # ATP's
SLOT_FIELDS = 12
SENT_AT, DEADLINE, ASKED_AT = range(3)
SLOT_TIMES = 3


def records(dtype: np.dtype, dimensions: int) -> Any:
    """The type of an array of records."""
    return numba.types.Array(numba.from_dtype(dtype), dimensions, "C")


Reals = Annotated[NDArray[np.float64], numba.float64[::1]]
RealTable = Annotated[NDArray[np.float64], numba.float64[:, ::1]]
RealBlock = Annotated[NDArray[np.float64], numba.float64[:, :, ::1]]
Integers = Annotated[NDArray[np.int64], numba.int64[::1]]
Table = Annotated[NDArray[np.int64], numba.int64[:, ::1]]
Block = Annotated[NDArray[np.int64], numba.int64[:, :, ::1]]


class World(NamedTuple):
    """One network, its jobs, and what is going on in it."""

    times: Reals  # events (testbed.simulator.events), like:
    orders: Integers
    whats: Integers
    state: Integers
    packets: Annotated[Any, records(PACKET_FIELDS, 1)]  # under way
    links: Annotated[Any, records(LINK_FIELDS, 2)]  # by link and direction
    chances: Integers  # of losses: good, bad, enter, leave, times 2^32 (switches.loss)
    costs: Reals  # testbed.simulator.lines names them
    jobs: Annotated[Any, records(JOB_FIELDS, 1)]
    trees: Annotated[Any, records(TREE_FIELDS, 2)]  # by tree and node
    children: Integers
    switches: Reals  # until when each is busy
    cells: Annotated[Any, records(CELL_FIELDS, 2)]  # by switch
    workers: Annotated[Any, records(WORKER_FIELDS, 1)]
    sums: Annotated[Any, records(SUM_FIELDS, 2)]  # by worker and sum
    inbox: Table  # by host: packets that have arrived
    slots: Block  # by worker, field and slot
    slot_times: RealBlock
    timers: Annotated[Any, records(TIMER_FIELDS, 2)]  # by worker: those of urgent queries, and the stream's by path
    recent: RealBlock  # by worker and timer
    backoffs: RealBlock  # by worker and path: timeouts of the stream's timers
    urgent_backoffs: RealBlock  # by worker: those of urgent queries' timers, and the longer ones of both
    aggregators: Annotated[Any, records(AGGREGATOR_FIELDS, 2)]  # by switch
    happened: Block  # by switch, job and event of ATP, as p4/include/atp/next_step.p4 numbers them: how often
    servers: Annotated[Any, records(SERVER_FIELDS, 1)]
    rows: Annotated[Any, records(ROW_FIELDS, 2)]  # by server
    seen: Block  # by server, row and rack: bits of the workers that are in
    members: Table  # by server and rack: bits of all
    ranks: Block  # by server, rack and number in it: the worker
    places: Block  # by server: aggregators by place, and the attempts that gave them
    held: Table  # by server: how many places have an aggregator
    nearest: Integers  # by node: a worker's switch, another node itself
    idle_at: RealTable  # by server, as the next two: hosts.atp.departures
    goals: Table  # by row
    leaves: RealTable


WORLD: Any = numba.types.NamedTuple(  # type: ignore[no-untyped-call]
    [hint.__metadata__[0] for hint in get_type_hints(World, include_extras=True).values()], World
)
Z, R, B = numba.int64, numba.float64, numba.boolean
Rows, Flags = numba.int64[::1], numba.boolean[::1]


@compiled(numba.void(WORLD, R, Z), inline=True)
def schedule(world: World, time: float, what: int) -> None:
    """Put in an event."""
    state = world.state
    if state[SIZE] == len(world.times):
        state[FULL] = 1
        return
    state[SIZE] = push(world.times, world.orders, world.whats, state[SIZE], time, state[ORDER], what)
    state[ORDER] += 1


@compiled(Z(WORLD), inline=True)
def new_packet(world: World) -> int:
    """The number of a packet that is free; the last one's, again and again, where there is no room."""
    free = world.state[FREE]
    if free + 1 == len(world.packets):
        world.state[FULL] = 1
    else:
        world.state[FREE] = world.packets[free].kind
    return int(free)


@compiled(numba.void(WORLD, Z), inline=True)
def drop(world: World, packet: int) -> None:
    """A packet is no more."""
    world.packets[packet].kind = world.state[FREE]
    world.state[FREE] = packet


@numba.extending.intrinsic
def unowned(typing_context: Any, world: Any) -> Any:
    """The same arrays without the counts of their references: the caller keeps them. To keep counts takes longer than all else."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole, null = arguments[0], cast(Any, numba.core.cgutils).get_null_value
        for i, kind in enumerate(signature.return_type.types):
            array = context.make_array(kind)(context, builder, builder.extract_value(whole, i))
            array.meminfo = null(array.meminfo.type)
            array.parent = null(array.parent.type)
            whole = builder.insert_value(whole, array._getvalue(), i)
        return whole

    return world(world), generate
