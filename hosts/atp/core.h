/* The cores of ATP's worker (worker.c) and server (merger.c, server.c). */
#pragma once

#include "../stream/core.h"

enum atp_allocation { MOST_ATTEMPTS = 16 }; /* to find an aggregator that no other place of the job has */

enum atp_control { BY_MARKS, BY_MARKS_AND_LOSSES, BY_NOTHING, BY_MARKS_AND_COLLISIONS };

/* --- which aggregator a chunk asks for (allocation.c) */

int64_t atp_aggregator(int64_t job, int64_t place, int64_t attempt, int64_t aggregators);
void atp_beginning(int64_t job, int64_t window, int64_t aggregators, int64_t *index, int64_t *attempts, int64_t *held);

/* --- how many chunks may be under way (congestion.c) */

/* How many may have aggregators (aggregator_window.c). */
typedef struct {
    double size, largest;
    double share;                /* of a window's chunks that collide, on average */
    int64_t results, collisions; /* since the last change */
    int64_t until;               /* packets before this one were sent before that */
} AggregatorWindow;

void aggregators_init(AggregatorWindow *, double largest);
void aggregators_settled(AggregatorWindow *, bool collided, int64_t number, int64_t following);

typedef struct {
    double size, largest; /* chunks */
    AggregatorWindow aggregators;
    int32_t control;      /* enum atp_control */
    int64_t recover;      /* packets from here on were sent after the last cut */
    int64_t suspect;      /* the chunk that seemed lost when the window was cut, -1: none; and the size before */
    double before;
} CongestionWindow;

void window_init(CongestionWindow *, double largest, int32_t control);
void window_settled(CongestionWindow *, int64_t chunks);
void window_congested(CongestionWindow *, int64_t number, int64_t following);
void window_lost(CongestionWindow *, int64_t chunk, int64_t number, int64_t following);
void window_collided(CongestionWindow *, int64_t chunk);
void window_result(CongestionWindow *, bool collided, int64_t number, int64_t following);
double window_room(const CongestionWindow *);

/* --- a worker */

/* One of the window, which chunk after chunk has. */
typedef struct {
    int64_t next;  /* the chunk that it has next */
    int64_t index; /* of its aggregator */
    bool raw;      /* the chunk was sent as it is */
    bool missed;   /* its result is known to be lost */
    uint8_t again; /* how its packet is marked that is sent again */
    uint8_t answer; /* flags of the last status about the chunk, where `answered`, and who is in */
    bool answered;
    uint32_t zero, one;
} Place;

/* What a worker is to a server. */
typedef struct {
    uint32_t zero, one; /* its own bits */
    uint8_t edge;       /* EDGE_SWITCH where they share a rack, else 0 */
} AtPath;

typedef struct {
    Stream stream; /* one path a server */
    Place *places; /* one a row of the stream */
    AtPath *servers;
    CongestionWindow window;
    double scaling;   /* a fixed factor; 0: each tensor has its own */
    bool prioritizes; /* its gradients say how urgent they are (ESA) */
} AtpWorker;

AtpWorker *atp_worker_new(int32_t window, int32_t servers, int32_t k, int32_t recovery, const Datagrams *packets, int32_t packet_bytes);
void atp_worker_join(AtpWorker *, int32_t job, int32_t rank, uint32_t epoch, int32_t workers, int64_t aggregators);
void atp_worker_free(AtpWorker *);
void atp_worker_start(AtpWorker *, const Transfer *, double now);
bool atp_worker_received(AtpWorker *, const Datagrams *, double now);
void atp_worker_ask_whom(AtpWorker *, int64_t row);
int64_t atp_named(const AtpWorker *, const Datagrams *, int64_t oldest, int32_t *places);

/* --- a server's sums (merger.c) */

typedef struct {
    int64_t chunk;
    bool complete;
    bool bare;         /* tags and exponents are added up in place of vectors */
    uint8_t flags;     /* of all packets that were added */
    uint8_t exponent;  /* the largest */
    uint32_t tag;      /* the sum */
    int64_t raw_chunk; /* of which workers' own values have come, -1: none; they are in `raw`, k of each worker */
    int32_t *raw;
} SumRow;

typedef struct { int64_t row, worker; } Asked;
typedef struct { int64_t row, worker, rack; } Ready;

/* What a worker is to a server, by rank (hosts.atp.tree). */
typedef struct {
    int32_t rack, number, bit1;
    bool local;
} Member;

/* The last two chunks of each place of a job's window; chunk q has row q mod 2w. */
typedef struct {
    int32_t job, workers, k, window, server, servers;
    uint32_t epoch;
    int64_t aggregators;
    Member *members;
    Datagrams results; /* one a row */
    int32_t packet_bytes;
    SumRow *rows;
    bool *seen, *raw_seen; /* (rows, workers) */
    int64_t *total;        /* (rows, k) */
    int64_t newest;        /* chunk so far */
    uint32_t before[2];    /* the sequence numbers of the last results for all */
    int64_t *index, *attempts, *held; /* by place, by place, by aggregator */
    bool *assigned; /* aggregators that places of this server's chunks have ever had */
    int64_t outdated;
    /* what the last batch of packets led to: rows whose results all get; who sent a packet again after the result, or asks for
       one; and who is told what is incomplete, by statuses in that order */
    int64_t *finished, *asking;
    Asked *asked;
    Ready *ready;
    int64_t finished_count, asking_count, asked_count, ready_count;
    int64_t finished_room, asking_room, asked_room, ready_room;
} Merger;

Merger *merger_new(int32_t window, int32_t workers, int32_t k, int64_t aggregators, const Datagrams *results, int32_t packet_bytes);
void merger_join(Merger *, int32_t job, uint32_t epoch, int32_t server, int32_t servers);
void merger_free(Merger *);
void merger_take(Merger *, const Datagrams *packets, const Datagrams *statuses);
void merger_missing(const Merger *, int64_t chunk, bool *missing);
void merger_name(Merger *, int64_t row);

/* --- results on their way (departures.c) */

typedef struct {
    int32_t racks, to_all; /* peers are switches by rack, then workers by rank; the server's own switch reaches all */
    int64_t rows;
    const Member *members;
    int64_t *goal;      /* by row: whom the last copy of its result goes to, -1: nobody */
    double *leaves;     /* and when that leaves */
    double idle_urgent, idle; /* when the link has sent all that is urgent, and all */
} Departures;

void departures_init(Departures *, int64_t rows, int32_t racks, int32_t to_all, const Member *);
void departures_free(Departures *);
void departures_occupied(Departures *, int64_t count, bool urgent, double seconds, double now);
void departures_sent(Departures *, int64_t row, int32_t peer, bool urgent, double seconds, double now);
int64_t departures_lacking(const Departures *, const Asked *wanted, int64_t count, double now, Asked *lacking);

/* --- a server */

typedef struct {
    Merger *merger;
    Departures departures;
    Datagrams statuses;     /* behind the results; the first of them has number `first_status` of all packets */
    int64_t first_status;
    int32_t first_worker;   /* among the peers; those before are switches by rack */
    int32_t own_switch;
    double result_seconds, status_seconds; /* on the server's link; 0 where it has no rate */
    int64_t repeated;       /* copies of results that were asked for */
    Outbox outbox;
} AtpServer;

AtpServer *atp_server_new(Merger *, int32_t switches, int32_t own_switch, const Datagrams *statuses, int64_t first_status);
void atp_server_free(AtpServer *);
void atp_server_received(AtpServer *, const Datagrams *, double now);
