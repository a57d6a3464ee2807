/* Chunks under way: rows that wait for results, what becomes of them, and what is to be sent. */
#include "inside.h"
#include "quantization.h"

#define SHORTEST_NAP 0.001 /* seconds that results may wait to be handled in one batch */
#define LONGEST_NAP 0.005
#define SHORTEST 0.01          /* seconds that a chunk is waited for at least */
#define SHORTEST_URGENT 0.005  /* and what is urgent */
#define INITIAL 0.1
#define MOST_GROWTH 4          /* times the shortest round trip of late */
#define MOST_URGENT_GROWTH 64  /* a result that answers an urgent query waits in queues of vectors */
#define RESENDING_MARGIN 1.0   /* round trips */
#define ASKING_MARGIN (1. / 4)

void stream_init(Stream *s, const Scheme *scheme, int32_t rows, int32_t paths, enum stream_recovery recovery) {
    s->scheme = scheme;
    s->count = rows;
    s->paths_count = paths;
    s->recovery = recovery;
    s->rows = calloc(rows, sizeof *s->rows);
    s->paths = calloc(paths, sizeof *s->paths);
    for (int32_t i = 0; i < rows; i++) {
        s->rows[i].chunk = -1;
        s->rows[i].deadline = INFINITY;
    }
    double margin = recovery == ASKING ? ASKING_MARGIN : RESENDING_MARGIN;
    for (int32_t i = 0; i < paths; i++)
        timer_init(&s->paths[i].timer, INITIAL, SHORTEST, LONGEST_TIMEOUT, margin, MOST_GROWTH);
    timer_init(&s->by_status, INITIAL, SHORTEST_URGENT, LONGEST_TIMEOUT, 1, MOST_URGENT_GROWTH);
    timer_init(&s->by_result, INITIAL, SHORTEST_URGENT, LONGEST_TIMEOUT, 1, MOST_URGENT_GROWTH);
    s->first = s->last = -1;
    s->soonest = INFINITY;
    s->probing = 1;
    s->gap = GAP;
}

/* Be a worker of a group of a job's. */
void stream_join(Stream *s, int32_t job, int32_t rank, uint32_t epoch, int32_t workers) {
    s->job = job;
    s->rank = rank;
    s->epoch = epoch;
    s->workers = workers;
    for (int code = 0; code < 256; code++) {
        s->scales[code] = scale_of(code, workers);
        s->steps[code] = step_of(code, workers);
    }
}

void stream_set_deadline(Stream *s, Row *row, double deadline) {
    row->deadline = deadline;
    s->soonest = fmin(s->soonest, deadline);
    s->latest = fmax(s->latest, deadline);
}

/* --- rows in the order in which they were sent */

/* The row does not wait any more, at its place. */
static void leave(Stream *s, const Row *row) {
    *(row->before < 0 ? &s->first : &s->rows[row->before].after) = row->after;
    *(row->after < 0 ? &s->last : &s->rows[row->after].before) = row->before;
    s->outstanding--;
}

/* The row waits, as the last one. */
static void join(Stream *s, int32_t i) {
    s->rows[i].before = s->last;
    s->rows[i].after = -1;
    *(s->last < 0 ? &s->first : &s->rows[s->last].after) = i;
    s->last = i;
    s->outstanding++;
}

void stream_release(Stream *s) {
    void *held[] = {s->rows, s->paths, s->outbox.leaving, s->outbox.sends, s->transfers, s->finished, s->announced, s->announcements};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        free(held[i]);
}

/* --- tensors */

/* Take in a tensor, behind all others. */
Transfer *stream_start(Stream *s, const Transfer *new) {
    GROW(s->transfers, s->transfers_room, s->transfers_count + 1);
    Transfer *t = &s->transfers[s->transfers_count++];
    *t = *new;
    t->start = s->position;
    t->remaining = t->length;
    s->position += t->length;
    return t;
}

/* The sum of all announcements of a tensor has come. */
void stream_announced(Stream *s, const Transfer *t, const int32_t *total) {
    GROW(s->announced, s->announced_room, s->announced_count + 1);
    GROW(s->announcements, s->announcements_room, (s->announced_count + 1) * s->k);
    s->announced[s->announced_count] = t->id;
    for (int32_t e = 0; e < s->k; e++)
        s->announcements[s->announced_count * s->k + e] = big(total[e]);
    s->announced_count++;
}

/* All chunks of the tensor at this place have come. */
void stream_finish(Stream *s, int64_t place) {
    GROW(s->finished, s->finished_room, s->finished_count + 1);
    s->finished[s->finished_count++] = s->transfers[place].id;
    free(s->transfers[place].largest);
    s->transfers_count--;
    memmove(&s->transfers[place], &s->transfers[place + 1], (s->transfers_count - place) * sizeof *s->transfers);
}

/* --- sending */

void outbox_put(Outbox *o, const int32_t *rows, int count, int64_t behind, int32_t peer, int32_t length, bool urgent) {
    GROW(o->leaving, o->rows_room, o->rows + count);
    GROW(o->sends, o->room, o->count + 1);
    o->sends[o->count++] = (Send){o->rows, count, peer, length, urgent};
    for (int i = 0; i < count; i++)
        o->leaving[o->rows++] = rows[i] + behind;
}

/* Have packets sent to these rows' peers: their own, or those that stand so many places `behind` them. */
void stream_put(Stream *s, const int32_t *rows, int count, bool urgent, int32_t length, int64_t behind) {
    if (s->scheme->put) {
        s->scheme->put(s, rows, count, urgent, length, behind);
        return;
    }
    s->counters.bytes_sent += count * (int64_t)length;
    s->counters.handled += count;
    if (s->paths_count == 1) {
        outbox_put(&s->outbox, rows, count, behind, 0, length, urgent);
        return;
    }
    int32_t mine[count + 1];
    for (int32_t path = 0; path < s->paths_count; path++) {
        int n = 0;
        for (int i = 0; i < count; i++)
            if (s->rows[rows[i]].path == path)
                mine[n++] = rows[i];
        if (n)
            outbox_put(&s->outbox, mine, n, behind, path, length, urgent);
    }
}

/* Send these rows' packets, which are all of a length. */
static void send_alike(Stream *s, const int32_t *rows, int count, double now, bool urgent, int32_t length) {
    stream_put(s, rows, count, urgent, length, 0);
    for (int i = 0; i < count; i++) {
        Row *row = &s->rows[rows[i]];
        if (row->tries)
            leave(s, row); /* it waits already */
        join(s, rows[i]);
        row->sent_at = now;
        row->order = s->sent++;
        stream_set_deadline(s, row, now + s->paths[row->path].timer.timeouts[row->tries < MOST_BACKOFF ? row->tries : MOST_BACKOFF]);
        row->overtaken = row->passed = row->asked = row->pressed = row->informed = 0;
    }
    s->counters.sent += count;
}

/* Bytes of a row's packet, or of its result. */
int32_t stream_bytes(const Stream *s, const Row *row, bool bare) {
    return (bare ? s->bare_bytes : s->packet_bytes) + (row->part ? PART_BYTES : 0);
}

/* Send these rows' packets, bare ones before those with vectors. */
void stream_send(Stream *s, const int32_t *rows, int count, double now, bool urgent) {
    const bool bare[] = {true, true, false, false}, part[] = {false, true, false, true};
    for (int kind = 0; kind < 4; kind++) {
        int32_t alike[count + 1];
        int n = 0;
        for (int i = 0; i < count; i++)
            if (s->rows[rows[i]].bare == bare[kind] && !!s->rows[rows[i]].part == part[kind])
                alike[n++] = rows[i];
        if (n)
            send_alike(s, alike, n, now, urgent, stream_bytes(s, &s->rows[alike[0]], bare[kind]));
    }
}

/* Send these rows' packets again, marked; urgent ones leave this host before what waits. */
void stream_retransmit(Stream *s, const int32_t *rows, int count, double now, bool urgent) {
    if (!count)
        return;
    s->counters.retransmissions += count;
    for (int i = 0; i < count; i++)
        s->rows[rows[i]].tries++;
    s->scheme->mark_again(s, rows, count);
    stream_send(s, rows, count, now, urgent);
}

/* --- receiving */

/* A row whose result has come, as far as that tells of others. */
typedef struct {
    int32_t path;
    int64_t order;
    uint32_t part;
} Settled;

static int compare(const void *a, const void *b) {
    const Settled *x = a, *y = b;
    return x->path != y->path ? x->path - y->path : (x->order > y->order) - (x->order < y->order);
}

/* How many of these, in order, stand before a place. */
static int standing_before(const Settled *settled, int count, Settled place) {
    int low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (compare(&settled[middle], &place) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Count results for the rows that were sent before them on the same path. */
static void overtake(Stream *s, Settled *settled, int count) {
    int64_t newest = -1;
    bool owned = false; /* some are vectors of owners */
    for (int i = 0; i < count; i++) {
        newest = settled[i].order > newest ? settled[i].order : newest;
        owned |= from_owner(settled[i].part);
    }
    if (s->first < 0 || s->rows[s->first].order > newest)
        return; /* as nearly always, but for vectors of owners */
    s->gaps = true;
    qsort(settled, count, sizeof *settled, compare);
    for (int32_t i = s->first; i >= 0; i = s->rows[i].after) {
        Row *row = &s->rows[i];
        int first = standing_before(settled, count, (Settled){row->path, row->order, 0});
        int end = standing_before(settled, count, (Settled){row->path, INT64_MAX, 0});
        int ordered = end - first;
        if (owned || from_owner(row->part))
            for (int later = first; later < end; later++)
                ordered -= !in_order(settled[later].part, row->part);
        row->overtaken += ordered;
        row->passed += end - first - ordered;
    }
}

/* Results have come for these rows; `once` where no worker sent a packet of the chunk again, so the round trip counts.

   What waited through a timeout, of this worker or of others at the same time, tells nothing of the network. */
void stream_settled(Stream *s, const int32_t *rows, const bool *once, int count, double now) {
    Settled come[count + 1]; /* what can overtake others */
    int n = 0;
    double telling[count + 1], waited = 0;
    s->heard_at = now;
    for (int i = 0; i < count; i++)
        waited += now - s->rows[rows[i]].sent_at;
    for (int32_t path = 0; path < s->paths_count; path++) {
        int tells = 0;
        for (int i = 0; i < count; i++) {
            const Row *row = &s->rows[rows[i]];
            if (row->path != path || !once[i] || row->tries)
                continue;
            come[n++] = (Settled){path, row->order, row->part};
            s->paths[path].heard_at = now;
            if (row->sent_at > s->timed_out_at && !(row->bare && row->answer_bare)) /* a header's round trip is shorter than a vector's */
                telling[tells++] = now - row->sent_at;
        }
        if (tells)
            s->paths[path].sampled_at = now;
        timer_sample(&s->paths[path].timer, telling, tells);
    }
    for (int i = 0; i < count; i++) {
        leave(s, &s->rows[rows[i]]);
        s->rows[rows[i]].chunk = -1;
        s->rows[rows[i]].deadline = INFINITY;
    }
    s->counters.waited += waited;
    s->counters.results += count;
    overtake(s, come, n);
    recovery_settled(s, rows, once, count, now);
}

/* So many results that are not awaited have come, over these paths. */
void stream_needless(Stream *s, int64_t count, const bool *on_path, double now) {
    s->counters.duplicates += count;
    recovery_needless(s, on_path, now);
}

/* --- time */

Watch stream_watch(Stream *s) {
    Watch found = {INFINITY, -1};
    for (int32_t i = s->first; i >= 0; i = s->rows[i].after) {
        found.deadline = fmin(found.deadline, s->rows[i].deadline);
        if (found.oldest < 0 || s->rows[i].chunk < found.oldest)
            found.oldest = s->rows[i].chunk;
    }
    s->soonest = found.deadline;
    return found;
}

/* Do what is due at this time. */
Watch stream_expired(Stream *s, double now) {
    if (s->soonest > now)
        return stream_watch(s);
    int32_t rows[s->count];
    int n = 0;
    for (int32_t i = 0; i < s->count; i++)
        if (s->rows[i].deadline <= now)
            rows[n++] = i;
    if (n)
        recovery_expired(s, rows, n, now);
    return stream_watch(s);
}

/* Seconds in which more results may come, to be handled in one batch: a quarter of what is outstanding takes so long. */
double stream_nap(const Stream *s) {
    double round_trip = INFINITY;
    for (int32_t i = 0; i < s->paths_count; i++)
        round_trip = fmin(round_trip, s->paths[i].timer.srtt);
    double share = (double)s->outstanding / s->count;
    return fmin(fmax(share * round_trip / 4, fmin(SHORTEST_NAP, round_trip / 4)), LONGEST_NAP);
}

/* The row of the oldest chunk. */
int64_t stream_oldest_row(const Stream *s) {
    int64_t oldest = 0;
    for (int32_t i = 1; i < s->count; i++)
        if (s->rows[i].chunk >= 0 && (s->rows[oldest].chunk < 0 || s->rows[i].chunk < s->rows[oldest].chunk))
            oldest = i;
    return oldest;
}
