/* A simulated network: hosts that run the real cores, links, and models of the switches; packets have headers and no vectors.

   Nodes are numbered: workers by rank over all jobs, then switches, then servers; hosts are workers and servers. What a job sends goes
   along a tree of nodes: SwitchML's towards the switch where all meet, ATP's towards each of the servers. Times are in seconds. */
#pragma once

#include "../../hosts/atp/core.h"
#include "../../hosts/atp/wire.h"
#include "../../hosts/switchml/core.h"
#include "../../hosts/switchml/wire.h"
#include "events.h"

enum way { UP, DOWN };

enum atp_level { REMOTE, LOCAL, TRANSIT }; /* of a switch in a tree: in a remote worker's rack, in the server's, above them */

/* What becomes of ATP's packets at a switch, as p4/include/atp/next_step.p4 numbers it. */
enum atp_event { CLAIM, COLLIDE, COMPLETE, FLUSH, PASS, FREE, ANSWER, REPAIR, ATP_EVENTS };

/* A packet on its way. */
typedef struct {
    uint8_t header[28]; /* as it is on the wire */
    double start, due;  /* when it begins to cross a host's link, if nothing urgent comes, and when it arrives; -1: nothing delays it */
    int32_t node;       /* where it arrives */
    int32_t goal;       /* of ATP: the node that it is for; of a query: that asks */
    int32_t link;       /* that it crosses upwards, which may lose it; -1: none */
    int32_t following;  /* the next one on that link; of one that is free: the next free one; -1: none */
    uint16_t job, tree;
    int16_t child;      /* of the node where it arrives, which sends it; -1: the node above */
    uint8_t length;     /* of one without a vector; 0: a vector follows */
    int8_t lacks;       /* over RoCE: bytes that it is shorter than others of its kind, without headers that some have (enum framing) */
} Packet;

/* A direction of a link, and the queue before it. */
typedef struct {
    double vector, header; /* times of a packet with a vector, and of one without */
    double octet;          /* of a byte */
    double busy;           /* until when */
    double pace, paced;    /* between two packets that leave a switch's queue that has a rate; when the next one may */
    int64_t depth, deep;   /* packets that the queue holds, 0: all; from how many on it marks them, 0: never */
    uint32_t seed;         /* of losses */
    bool bad;              /* the state of Gilbert and Elliott */
    int64_t numbered, lost, dropped; /* packets so far */
    int32_t head, tail;    /* of a host's packets that are not urgent and have not arrived; -1: none */
} Line;

/* A node in a tree. */
typedef struct {
    int32_t above;        /* -1: none */
    int32_t child;        /* its number there */
    int32_t link, way;    /* to that */
    int32_t first, count; /* of its own children, among World.children */
    uint32_t everyone;    /* bits of all of them */
    int32_t level;        /* of a switch of ATP: enum atp_level */
    int32_t fan_in;       /* of that: how many children a whole sum has */
    uint32_t one;         /* of a switch of ATP in a remote rack: the rack's bit at the server */
} Branch;

/* A switch's set of a slot of SwitchML (pool.c). */
typedef struct {
    int64_t chunk;
    uint32_t seen;
    uint8_t exponent;
    bool bare; /* the round has tags in place of vectors */
    bool final;
    int32_t asker; /* child, -1: none */
} Cell;

/* A switch's end of a queue pair: of one slot's messages (queue_pairs.c). */
typedef struct {
    bool connected;    /* the worker at the other end has told where its results go */
    bool under_way;    /* a message comes, */
    uint32_t expected; /* whose next packet has this number */
    uint32_t next;     /* number of the first packet of the next message that leaves */
    uint32_t first[2]; /* by set of the slot: that of the message that was begun last, */
    int64_t begun[2];  /* and that message's first chunk, plus 1; 0: none was */
} QueuePair;

/* A switch's aggregator of ATP (aggregators.c). */
typedef struct {
    uint32_t owner; /* whose it is: job and sequence, as on the wire */
    uint32_t seen;  /* bits of the children that are in; 0: free */
    uint8_t ecn, again; /* flags */
    uint8_t length; /* of its packets, as Packet has it */
    bool asked;     /* a query has gone on */
    double touched;
    uint32_t refused, finished; /* who has last found it taken; whose result has passed last */
    bool has_refused, has_finished;
} Aggregator;

typedef struct {
    bool atp;
    int32_t slots; /* of its pool, or its window */
    int32_t base;  /* of its cells in each switch */
    int32_t message; /* packets of a message over RoCE; 0: it is over UDP, or ATP */
    int32_t first_layer, layers; /* its layers, in the order of their sums */
    int32_t tree;  /* its first one; ATP has one a server */
    int32_t first, size; /* of its workers */
    int32_t first_server, servers; /* of its own */
} SimulatedJob;

/* A worker's sum. */
typedef struct {
    double begun, ended, waited;
    int64_t results, retransmissions; /* of the worker, up to its end */
} Span;

/* A worker or a server. */
typedef struct {
    int32_t job, node, tree;
    SwitchML *switchml; /* one of the three, */
    SwitchMLRdma *rdma; /* and what that is part of over RoCE, else NULL */
    AtpWorker *atp;
    AtpServer *server;
    uint8_t *memory;    /* of the packets that it sends, which are headers alone */
    uint8_t *inbox;     /* headers of packets that have arrived */
    uint32_t *lengths;
    int64_t arrived, inbox_room, lengths_room;
    double busy;        /* until when its processor is */
    double timer_at;    /* when its timer rings */
    bool woken;         /* it is going to look at what has arrived */
    int32_t begun, over; /* sums that it has come to, and that it has */
    bool exponents;     /* chunks have some */
} Host;

typedef struct {
    double host, batch, switch_, delay; /* for each packet of a host, each batch, each packet of a switch; from a link to the next node */
    bool naps;
} SimulatedCosts;

typedef struct {
    SimulatedCosts costs;
    uint32_t good, bad, enter, leave; /* chances of losses, times 2^32 (switches.loss) */
    int32_t workers, switches, servers, links, jobs_count, trees_count, cells_count, pairs_count, aggregators_count, sums_count;
    Host *hosts;      /* workers, then servers */
    double *busy;     /* by switch: until when */
    Line *lines;      /* by link and direction */
    SimulatedJob *jobs;
    Branch *branches; /* by tree and node */
    int32_t *children;
    Cell *cells;      /* by switch */
    QueuePair *pairs; /* by the lower node of a link, the end whose packets go up or down, and the pair's first slot */
    Aggregator *aggregators; /* by switch */
    int64_t *happened; /* by switch, job and enum atp_event */
    int64_t *chunks;  /* of a sum, by layer of a job; over RoCE: messages */
    Span *spans;      /* by worker and sum */
    int32_t stepped;  /* the worker that has all sums of a step, and waits for its next ones; -1: none */
    Packet *packets;
    int64_t packets_room;
    int32_t free;     /* the first packet that is, -1: none */
    Heap events;      /* (number of a host or packet) * 4 + enum what */
    int64_t happenings;
} World;

World *world_new(int32_t workers, int32_t switches, int32_t servers, int32_t links, int32_t jobs, int32_t trees);
void world_room(World *, int32_t cells, int32_t pairs, int32_t aggregators, int32_t sums, int32_t layers);
void world_free(World *);
void world_worker(World *, int32_t number, int32_t job, int32_t recovery, int32_t control, bool exponents);
void world_server(World *, int32_t number, int32_t job, int32_t rack);
void world_come(World *, int32_t worker, double when);
int64_t world_run(World *, int64_t most);
