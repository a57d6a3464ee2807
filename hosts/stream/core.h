/* The core of a worker that sums a stream of chunks: what is outstanding, when it is overdue, and what to send.

   A core has no socket, no clock and no thread. Times are in seconds. Python sees what is declared here (hosts.cores). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum stream_sizes {
    MOST_BACKOFF = 2, /* doublings of a timeout */
    REMEMBERED = 64,  /* batches whose round trips are compared */
    MOST_ROWS = 8192,
};

enum stream_recovery { ASKING, RESENDING, RESENDING_AT_GAPS };

/* The retransmission timeout, by RFC 6298's estimator (timer.c). */
typedef struct {
    double srtt, variation;
    double initial, shortest, longest;
    double margin;      /* the least that a timeout is longer than a round trip, in round trips */
    double most_growth; /* how many times the shortest round trip of late is believed */
    double doubled_at;
    int64_t doublings;
    int64_t batches; /* whose medians are in `recent`, counted from the first one on */
    double recent[REMEMBERED];
    double timeouts[MOST_BACKOFF + 1]; /* by how often a chunk was sent again; more often does not change it */
} Timer;

/* Datagrams in memory, one `stride` bytes after the other; their vectors are at multiples of four. */
typedef struct {
    uint8_t *first;
    int64_t stride, count;
    uint32_t *lengths; /* in bytes, of what was received, or is sent with its own */
} Datagrams;

/* These places of `leaving`, `count` from `first` on, are rows of packets that go to a peer by number, in this order. What is
   `urgent` leaves the host before what waits there. */
typedef struct {
    int64_t first, count;
    int32_t peer, length; /* of each, in bytes; 0: each has its own */
    bool urgent;
} Send;

/* What is to be sent. The driver empties it. */
typedef struct {
    int64_t *leaving; /* rows */
    Send *sends;
    int64_t rows, count;
    int64_t rows_room, room;
} Outbox;

/* Packets and bytes of one worker since it started (hosts.collective.Counters, in its order). */
typedef struct {
    int64_t sent, results, duplicates, timeouts, retransmissions, queries, malformed, outdated, bytes_sent, bytes_received, handled;
    double waited;
} Counters;

/* A chunk that waits for its result. */
typedef struct {
    int64_t chunk;    /* -1: none */
    int64_t order;    /* number of its packet, of all that were sent */
    double sent_at, deadline;
    double asked_at;  /* when the last query was sent, if that was urgent, else 0 */
    int32_t path;     /* number of the peer that it goes to */
    int32_t tries;    /* how often it was sent again */
    int32_t overtaken; /* results since then of chunks that were sent later, and once, and whose results come later */
    int32_t passed;   /* the same, of chunks whose results may come first */
    int32_t asked;    /* queries since it was sent, or sent again */
    int32_t pressed;  /* those of them for which results had overtaken it */
    int32_t informed; /* which query was the next one when the last status came, 0: none has come */
    bool bare;        /* its packet has a tag in place of a vector, */
    bool answer_bare; /* and so has its result */
    uint32_t part;    /* what is behind that, of a chunk that has an owner (SwitchML); 0: nothing */
    int32_t before, after; /* the rows that were sent before and after it, of those that wait; -1: none */
} Row;

/* Chunks to one peer take one path, which has round trips of its own. */
typedef struct {
    Timer timer;
    double heard_at;   /* when a result came of a chunk that no worker sent again */
    double quiet_until; /* in a silence: when more of what was sent here may be asked about */
    double sampled_at; /* when a round trip told of the network */
} Path;

/* Who gives a tensor, and who gets the sum (hosts.collective.Operation). */
enum stream_way { ALL, TO_OWNERS, FROM_OWNERS };

/* A tensor: chunk j of it is number start + j of the stream. Without values (NULL) there are chunks and no numbers.

   Where chunks have owners, there is one of all, or each of so many workers owns an equal part; then chunks are dealt to them in
   turn. The owner of a part has memory for that alone, on the side where others have the whole: values where owners give, the result
   where they get. */
typedef struct {
    int64_t id;
    int64_t start, length;  /* chunks */
    int64_t remaining;      /* of them, without a result */
    int64_t elements;
    bool floats;            /* float32; else int32 */
    const void *values;     /* (elements,) */
    void *result;           /* (elements,); may be the same memory: a chunk is not needed any more when its sum comes */
    int32_t way;            /* enum stream_way */
    int32_t parts, owner;   /* of chunks that have owners: the latter where there is one part */
    uint32_t tag;           /* of the tensor: what tells its length and type from others */
    const int32_t *announcement; /* (k,), for when tags differ */
    uint8_t *largest;       /* SwitchML: the workers' largest exponent of each chunk, as it becomes known */
    uint8_t exponent;       /* ATP: the workers' largest exponent, where it is `agreed`, else this worker's own */
    bool agreed;
} Transfer;

typedef struct Stream Stream;

/* What differs between schemes. */
typedef struct {
    void (*mark_again)(Stream *, const int32_t *rows, int count);
    void (*ask)(Stream *, const int32_t *rows, const bool *again, int count, bool urgent);
    bool (*received)(Stream *, const Datagrams *, double now);
    void (*put)(Stream *, const int32_t *rows, int count, bool urgent, int32_t length, int64_t behind); /* NULL: as they are */
} Scheme;

/* The sending half of a worker: `count` rows, one of each chunk under way. The first member of every scheme's worker. */
struct Stream {
    const Scheme *scheme;
    int32_t count, paths_count, k;
    int32_t recovery; /* enum stream_recovery */
    uint32_t epoch;
    int32_t job, rank, workers;
    double scales[256], steps[256]; /* by exponent code */
    Datagrams packets; /* one a row, and behind them what the scheme has beside */
    int32_t packet_bytes, bare_bytes;
    Row *rows;
    Path *paths;
    Outbox outbox;
    Counters counters;
    int32_t first, last; /* rows that wait, in the order in which they were sent; -1: none */
    int32_t outstanding; /* how many */
    double soonest, latest; /* no deadline is before the one or after the other */
    bool gaps;           /* results may have overtaken some of them */
    int64_t position;    /* of what is started next, in the stream */
    int64_t sent;        /* packets, which numbers them */
    double heard_at;     /* when the last result came */
    double timed_out_at;
    int64_t probing;     /* of the rows that nothing has overtaken: so many are tried next in a silence */
    int32_t gap;         /* results of chunks sent later after which a chunk is overdue */
    int64_t ordered;     /* results since the last one out of order */
    int64_t silence;     /* how often chunks were asked about since the last result */
    Timer by_status, by_result; /* round trips of urgent queries, by what answers: a result waits in queues of vectors */
    Transfer *transfers; /* under way, in the order in which they were started */
    int64_t transfers_count, transfers_room;
    int64_t *finished;   /* ids of those that are over, which the driver empties, as it does `announced` */
    int64_t finished_count, finished_room;
    int64_t *announced;  /* ids of tensors whose announcements' sums have come, which are in `announcements`, k each */
    int32_t *announcements;
    int64_t announced_count, announced_room, announcements_room;
};

/* The next deadline, and the oldest chunk that is outstanding, -1: none. */
typedef struct {
    double deadline;
    int64_t oldest;
} Watch;

void timer_init(Timer *, double initial, double shortest, double longest, double margin, double most_growth);
void timer_sample(Timer *, const double *round_trips, int count);
void timer_needless(Timer *, double now);

Watch stream_watch(Stream *);
Watch stream_expired(Stream *, double now);
double stream_nap(const Stream *);
int64_t stream_oldest_row(const Stream *);
