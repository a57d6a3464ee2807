/* ATP's worker (NSDI '21): a window of chunks that go to the parameter server by way of an aggregator, if one is free.

   All chunks that a job ever sends form one stream, numbered from 0; chunk q is added by server q mod S, has place q mod w in the window
   of w chunks, and asks for the aggregator of that place. It is sent once chunk q - w has its result.

   The first chunk of an all-reduce announces the tensor: a bare packet with its tag and the exponent that suits most of this worker's
   chunks. The result has the largest of all workers', which gives the factor that makes integers of the tensor's floats; they wait for
   it. A chunk that is too large for the factor, or so small that it would be rounded off, is sent as raw values and added at the
   server. With a fixed factor nothing waits, and what is small is rounded. The announcement itself is sent as raw values where tags
   differ, which tells who sums another tensor (hosts.stream.announcement). */
#include "inside.h"

#include "../stream/quantization.h"

#define FINE 8        /* bits that the largest value of a chunk has at least, as an integer */
#define MOST_WAITS 16 /* queries about a chunk that others are missing in; then its aggregator is flushed, lest they miss it for ever */

static const Scheme scheme;

static AtpWorker *of(Stream *s) { return (AtpWorker *)s; }

/* `next_index` of a query of a worker that has sent its packet again so often. */
static uint16_t asker(int32_t rank, int64_t tries) { return rank + RANKS * (tries % ATP_TRIES); }

/* `packets` has two a place: its gradient, and behind all gradients its query. */
AtpWorker *atp_worker_new(int32_t window, int32_t servers, int32_t k, int32_t recovery, const Datagrams *packets, int32_t packet_bytes) {
    AtpWorker *w = calloc(1, sizeof *w);
    stream_init(&w->stream, &scheme, window, servers, recovery);
    w->stream.k = k;
    w->stream.packets = *packets;
    w->stream.packet_bytes = packet_bytes;
    w->stream.bare_bytes = sizeof(AtpBare);
    w->places = calloc(window, sizeof *w->places);
    w->servers = calloc(servers, sizeof *w->servers);
    for (int32_t i = 0; i < window; i++) {
        w->places[i].next = i;
        w->places[i].again = RESEND;
    }
    return w;
}

/* What it is to each of the servers is set by then. */
void atp_worker_join(AtpWorker *w, int32_t job, int32_t rank, uint32_t epoch, int32_t workers, int64_t aggregators) {
    int32_t count = w->stream.count;
    int64_t index[count], attempts[count], *held = malloc(aggregators * sizeof *held);
    stream_join(&w->stream, job, rank, epoch, workers);
    atp_beginning(job, count, aggregators, index, attempts, held);
    free(held);
    for (int32_t i = 0; i < count; i++)
        w->places[i].index = index[i];
    for (int32_t i = 0; i < 2 * count; i++)
        header(&w->stream.packets, i)->epoch = big(epoch);
}

void atp_worker_free(AtpWorker *w) {
    stream_release(&w->stream);
    free(w->places);
    free(w->servers);
    free(w);
}

/* --- sending */

/* The oldest chunk without a result. */
static int64_t oldest_of(const AtpWorker *w) {
    int64_t oldest = INT64_MAX;
    for (int32_t i = 0; i < w->stream.count; i++) {
        int64_t chunk = w->stream.rows[i].chunk >= 0 ? w->stream.rows[i].chunk : w->places[i].next;
        oldest = chunk < oldest ? chunk : oldest;
    }
    return oldest;
}

static bool fits(const float *chunk, int64_t count, double scaling) {
    bool all = true;
    for (int64_t e = 0; e < count; e++)
        all &= fabs((double)chunk[e]) * scaling <= LARGEST_INTEGER; /* which NaN is not */
    return all;
}

/* The factor that makes integers of a tensor's floats. */
static double scaling_of(const AtpWorker *w, const Transfer *t) { return w->scaling ? w->scaling : w->stream.scales[t->exponent]; }
static double step_in(const AtpWorker *w, const Transfer *t) { return w->scaling ? 1 / w->scaling : w->stream.steps[t->exponent]; }

/* How far below the tensor's exponent that of a chunk may be: with 31 bits for the sum of n workers it has FINE or more then. */
static int range_of(const AtpWorker *w) { return 30 - FINE - (int)ceil(log2(w->stream.workers)); }

/* Whether integers do for a chunk with this exponent. */
static bool in_range(const AtpWorker *w, uint8_t exponent, uint8_t code) {
    return code == CODE_ZERO || (code <= exponent && code + range_of(w) >= exponent);
}

/* The exponent with which integers do for as many of a tensor's chunks as possible; of several the largest. */
static uint8_t best_exponent(const AtpWorker *w, const Transfer *t) {
    int64_t k = w->stream.k, counts[256] = {0}, inside = 0, most = 0;
    int best = CODE_ZERO;
    for (int64_t j = 0; j < t->length - 1; j++)
        counts[block_exponent((const float *)t->values + j * k, elements_of(t, j, k))]++;
    for (int code = CODE_ZERO + 1; code < CODE_NOT_FINITE; code++) {
        int left_behind = code - range_of(w) - 1;
        inside += counts[code] - (left_behind > CODE_ZERO ? counts[left_behind] : 0);
        if (counts[code] && inside >= most) {
            most = inside;
            best = code;
        }
    }
    return best;
}

/* Whether integers do for a worker's own chunk. */
static bool integers_do(const AtpWorker *w, const Transfer *t, const float *own, int64_t count) {
    return w->scaling ? fits(own, count, w->scaling) : in_range(w, t->exponent, block_exponent(own, count));
}

/* The tensor that a chunk is of, which is under way; NULL if none. */
static Transfer *tensor_of(const Stream *s, int64_t chunk) {
    for (int64_t i = 0; i < s->transfers_count; i++)
        if (chunk >= s->transfers[i].start && chunk < s->transfers[i].start + s->transfers[i].length)
            return &s->transfers[i];
    return NULL;
}

/* Put a tensor's chunk into its packet, behind its announcement; one for which integers do not do is marked. */
static void fill(AtpWorker *w, int32_t place, const Transfer *t) {
    Stream *s = &w->stream;
    int64_t j = s->rows[place].chunk - t->start, k = s->k;
    uint32_t *lanes = vector(&s->packets, place);
    set_bare(&s->rows[place], j == 0);
    if (!t->values)
        return;
    if (j == 0) {
        bare_at(&s->packets, place)->tag = big(t->tag);
        bare_at(&s->packets, place)->exponent = t->exponent;
        return;
    }
    const float *own = (const float *)t->values + (j - 1) * k;
    int64_t count = elements_of(t, j - 1, k);
    if (t->floats && integers_do(w, t, own, count)) {
        quantize(own, count, scaling_of(w, t), lanes, k);
        return;
    }
    memset(lanes, 0, k * sizeof *lanes);
    if (t->floats)
        header(&s->packets, place)->flags |= OVERFLOW;
    else
        swap((const uint32_t *)own, lanes, count);
}

static int by_next(const void *a, const void *b, void *places) {
    int64_t x = ((const Place *)places)[*(const int32_t *)a].next, y = ((const Place *)places)[*(const int32_t *)b].next;
    return (x > y) - (x < y);
}

/* Whether a place has a chunk to send: floats that have no factor yet wait. */
static bool sendable(const AtpWorker *w, const Place *place) {
    const Transfer *t = tensor_of(&w->stream, place->next);
    return t && (place->next == t->start || !t->floats || w->scaling || t->agreed);
}

/* The places whose next chunks are to be sent, in the order of those: as many as the window leaves room for. A chunk that is lost
   holds back its place alone.

   A chunk that is older than all that are under way is sent in any case. Else workers whose windows are cut while they wait for
   different chunks could each have no room for the one that the others lack. */
static int released(const AtpWorker *w, int32_t *ready) {
    const Stream *s = &w->stream;
    int64_t outstanding = 0, oldest = s->position, first = s->position;
    int n = 0;
    for (int32_t i = 0; i < s->count; i++)
        if (s->rows[i].chunk >= 0) {
            outstanding++;
            oldest = s->rows[i].chunk < oldest ? s->rows[i].chunk : oldest;
        } else if (sendable(w, &w->places[i])) {
            first = w->places[i].next < first ? w->places[i].next : first;
            ready[n++] = i;
        }
    int64_t room = (int64_t)window_room(&w->window) - outstanding, least = first < oldest;
    room = room > least ? room : least;
    qsort_r(ready, n, sizeof *ready, by_next, w->places);
    return n < room ? n : room;
}

/* Write the header of a place's next packet. */
static void open_place(AtpWorker *w, int32_t i) {
    Stream *s = &w->stream;
    Place *place = &w->places[i];
    Row *row = &s->rows[i];
    AtpHeader *packet = header(&s->packets, i);
    row->chunk = place->next;
    row->path = place->next % s->paths_count;
    row->tries = 0;
    place->next += s->count;
    place->raw = place->missed = false;
    place->again = RESEND;
    const AtPath *server = &w->servers[row->path];
    packet->bitmap0 = big(server->zero);
    packet->bitmap1 = big(server->one);
    packet->kind = ATP_GRADIENT;
    packet->flags = server->edge;
    packet->index = big_short(place->index);
    packet->next_index = big_short(w->prioritizes ? atp_priority(s) : 0);
    packet->owner = owner_of(s->job, row->chunk);
}

static void release(AtpWorker *w, double now) {
    Stream *s = &w->stream;
    int32_t ready[s->count];
    int n = released(w, ready);
    for (int i = 0; i < n; i++) {
        open_place(w, ready[i]);
        fill(w, ready[i], tensor_of(s, s->rows[ready[i]].chunk));
    }
    if (n)
        stream_send(s, ready, n, now, false);
}

void atp_worker_start(AtpWorker *w, const Transfer *new, double now) {
    Transfer *t = stream_start(&w->stream, new);
    if (t->floats && t->values && !w->scaling)
        t->exponent = best_exponent(w, t);
    release(w, now);
}

/* Write a query about a place's chunk. The result may be lost where it is `missed`, or nothing is known of it: in a silence, and of
   what was sent again, whose result no other names. */
static void query(AtpWorker *w, int32_t i, bool again) {
    Stream *s = &w->stream;
    const Row *row = &s->rows[i];
    const Place *place = &w->places[i];
    bool missed = place->missed || row->pressed == 0 || row->tries > 0;
    AtpHeader *packet = header(&s->packets, s->count + i);
    *packet = *header(&s->packets, i);
    packet->kind = ATP_QUERY;
    packet->flags = w->servers[row->path].edge | (again ? ASKED : 0) | (missed ? RESEND : 0) | (place->raw ? RAW : 0);
    packet->next_index = big_short(asker(s->rank, row->tries));
}

/* Ask what has become of these rows' chunks: whoever holds them on the way to their server, or the server. */
static void ask(Stream *s, const int32_t *rows, const bool *again, int count, bool urgent) {
    for (int i = 0; i < count; i++)
        query(of(s), rows[i], again[i]);
    stream_put(s, rows, count, urgent, sizeof(AtpHeader), s->count);
}

void atp_worker_ask_whom(AtpWorker *w, int64_t row) {
    int32_t rows[] = {row};
    bool again[] = {true};
    ask(&w->stream, rows, again, 1, false);
}

static void mark_again(Stream *s, const int32_t *rows, int count) {
    const Row *last = &s->rows[rows[0]];
    for (int i = 0; i < count; i++) {
        AtpHeader *packet = header(&s->packets, rows[i]);
        packet->flags = (packet->flags & ~JOINS) | of(s)->places[rows[i]].again;
        if (s->rows[rows[i]].order > last->order)
            last = &s->rows[rows[i]];
    }
    window_lost(&of(s)->window, last->chunk, last->order, s->sent);
}

static bool received(Stream *s, const Datagrams *packets, double now) { return atp_worker_received(of(s), packets, now); }

static const Scheme scheme = {.mark_again = mark_again, .ask = ask, .received = received};

/* This chunk does not fit into integers, or is an announcement that others differ from: it is sent as it is, to be added at the server. */
static void make_raw(AtpWorker *w, int32_t i) {
    Stream *s = &w->stream;
    AtpHeader *packet = header(&s->packets, i);
    uint32_t *lanes = vector(&s->packets, i);
    packet->kind = ATP_RAW;
    for (int64_t n = 0; n < s->transfers_count; n++) {
        const Transfer *t = &s->transfers[n];
        int64_t j = s->rows[i].chunk - t->start;
        if (j < 0 || j >= t->length || !t->values)
            continue;
        packet->flags |= RESEND | (j == 0 || !t->floats ? INTEGER : 0);
        memset(lanes, 0, s->k * sizeof *lanes);
        if (j == 0)
            swap((const uint32_t *)t->announcement, lanes, s->k);
        else
            swap((const uint32_t *)t->values + (j - 1) * s->k, lanes, elements_of(t, j - 1, s->k));
    }
    set_bare(&s->rows[i], false);
    w->places[i].raw = true;
    w->places[i].missed = false;
    s->rows[i].tries++;
}

/* --- receiving */

enum found { SUM, OVERFLOWING, NEEDLESS, STATUS, OTHER }; /* what a datagram may be; the first three are results */

/* What a datagram is to this worker, and the chunk that it is about.

   The first result of a chunk that is waited for is a sum, or it asks for raw values, if this worker has not sent them yet; others are
   needless. Where tags differ, that asks for the announcements themselves. */
static enum found sort_out(AtpWorker *w, const AtpHeader *packet, uint32_t length, int64_t oldest, bool *had, int64_t *chunk) {
    Stream *s = &w->stream;
    bool is_status = length == sizeof(AtpHeader) && packet->kind == ATP_STATUS;
    bool bare = length == sizeof(AtpBare);
    bool is_result = (bare || length == (uint32_t)s->packet_bytes) && packet->kind == ATP_RESULT;
    if (!(is_status || is_result) || job_of(packet) != s->job) {
        s->counters.malformed++;
        return OTHER;
    }
    if (big(packet->epoch) != s->epoch) {
        s->counters.outdated++;
        return OTHER;
    }
    *chunk = chunk_near(packet, oldest);
    if (is_status)
        return STATUS;
    int64_t place = modulo(*chunk, s->count);
    bool wants_raw = (packet->flags & (OVERFLOW | RAW)) == OVERFLOW;
    if (*chunk < 0 || s->rows[place].chunk != *chunk || had[place] || (wants_raw && w->places[place].raw))
        return NEEDLESS;
    if (bare != s->rows[place].bare) {
        if (w->places[place].raw)
            return NEEDLESS;
        s->counters.malformed++;
        return OTHER;
    }
    had[place] = true;
    const Transfer *t = tensor_of(s, *chunk);
    bool differs = bare && t->values && disputed(s, t, big(((const AtpBare *)packet)->tag));
    return wants_raw || differs ? OVERFLOWING : SUM;
}

/* The places, two at most, that wait for results which this one names. */
static int named(const AtpWorker *w, const AtpHeader *result, int64_t oldest, int32_t *places) {
    int64_t chunk;
    int n = 0;
    for (int field = 0; field < 2; field++)
        if (names(result, field, oldest, &chunk)) {
            int64_t place = chunk % w->stream.count;
            if (w->stream.rows[place].chunk == chunk && !w->places[place].raw)
                places[n++] = place;
        }
    return n;
}

/* The places that wait for results which these name: they were lost, or are among these. One may come out twice. */
int64_t atp_named(const AtpWorker *w, const Datagrams *results, int64_t oldest, int32_t *places) {
    int64_t n = 0;
    for (int64_t i = 0; i < results->count; i++)
        n += named(w, header(results, i), oldest, places + n);
    return n;
}

/* Ask for the results that these name and that are not among them: they are lost. */
static void miss(AtpWorker *w, const Datagrams *packets, const enum found *found, int64_t oldest, const bool *had, double now) {
    Stream *s = &w->stream;
    bool lost[s->count];
    int32_t rows[s->count], places[2];
    int n = 0;
    memset(lost, 0, sizeof lost);
    for (int64_t i = 0; i < packets->count; i++) {
        int count = found[i] <= NEEDLESS ? named(w, header(packets, i), oldest, places) : 0;
        while (count--)
            lost[places[count]] = true;
    }
    for (int32_t i = 0; i < s->count; i++)
        if (lost[i] && !had[i] && !w->places[i].missed) {
            w->places[i].missed = true;
            rows[n++] = i;
        }
    if (n)
        recovery_lost(s, rows, n, now);
}

/* Keep a sum. */
static void keep(AtpWorker *w, int64_t chunk, const Datagrams *packets, int where) {
    Stream *s = &w->stream;
    const uint32_t *sums = vector(packets, where);
    for (int64_t n = 0; n < s->transfers_count; n++) {
        Transfer *t = &s->transfers[n];
        int64_t j = chunk - t->start;
        if (j < 0 || j >= t->length)
            continue;
        t->remaining--;
        if (j == 0) {
            t->agreed = true;
            if (t->values && s->rows[chunk % s->count].bare)
                t->exponent = bare_at(packets, where)->exponent;
            else if (t->values)
                stream_announced(s, t, (const int32_t *)sums);
        }
        if (j == 0 || !t->values)
            continue;
        int64_t count = elements_of(t, j - 1, s->k);
        float *result = (float *)t->result + (j - 1) * s->k;
        if (t->floats && !(header(packets, where)->flags & RAW))
            dequantize(sums, step_in(w, t), result, count);
        else
            swap(sums, (uint32_t *)result, count);
    }
}

/* Keep these sums and what they tell beside: next aggregators, marks and collisions. Then send what they make room for. */
static void settle(AtpWorker *w, const Datagrams *packets, const int *where, const int32_t *rows, int count, double now) {
    Stream *s = &w->stream;
    int64_t chunks[count], marked = -1;
    bool once[count], collided[count];
    for (int i = 0; i < count; i++) {
        const AtpHeader *packet = header(packets, where[i]);
        const Row *row = &s->rows[rows[i]];
        chunks[i] = row->chunk;
        once[i] = !(packet->flags & RESEND);
        if (packet->flags & ECN && row->order > marked)
            marked = row->order;
        window_result(&w->window, packet->flags & COLLISION, row->order, s->sent);
        collided[i] = packet->flags & COLLISION && row->tries > 0;
        if (once[i] && w->places[rows[i]].missed) /* and it was only late */
            recovery_disordered(s, rows[i], now);
        w->places[rows[i]].index = big_short(packet->next_index);
    }
    if (marked >= 0)
        window_congested(&w->window, marked, s->sent);
    for (int i = 0; i < count; i++)
        if (collided[i])
            window_collided(&w->window, chunks[i]);
    window_settled(&w->window, count);
    stream_settled(s, rows, once, count, now);
    for (int i = 0; i < count; i++)
        keep(w, chunks[i], packets, where[i]);
    for (int64_t i = 0; i < s->transfers_count;)
        if (s->transfers[i].remaining)
            i++;
        else
            stream_finish(s, i);
    release(w, now);
}

/* Learn from a status who is in a chunk that is still asked about; whether it answers the last query, and lacks this worker. */
static bool learn(AtpWorker *w, const AtpHeader *packet, int64_t chunk, bool *lacks) {
    Stream *s = &w->stream;
    int64_t i = modulo(chunk, s->count), asked = big_short(packet->next_index);
    Place *place = &w->places[i];
    if (chunk < 0 || s->rows[i].chunk != chunk || place->raw != ((packet->flags & RAW) > 0) || asked % RANKS != s->rank)
        return false;
    place->answered = true;
    place->answer = packet->flags;
    place->zero = big(packet->bitmap0);
    place->one = big(packet->bitmap1);
    if (asked != asker(s->rank, s->rows[i].tries))
        return false;
    const AtPath *own = &w->servers[s->rows[i].path];
    bool inside = own->zero == 0 || place->zero == 0 || place->zero & own->zero;
    *lacks = !(place->one & own->one && inside);
    return true;
}

static void take_statuses(AtpWorker *w, const Datagrams *packets, const enum found *found, const int64_t *chunks, double now) {
    Stream *s = &w->stream;
    int32_t rows[packets->count];
    bool lacking[packets->count], had[s->count];
    int n = 0;
    memset(had, 0, sizeof had);
    for (int i = 0; i < packets->count; i++) {
        const AtpHeader *packet = header(packets, i);
        bool lacks;
        if (found[i] != STATUS)
            continue;
        int64_t place = modulo(chunks[i], s->count);
        if (!learn(w, packet, chunks[i], &lacks) || had[place])
            continue;
        had[place] = true;
        bool stuck = !lacks && s->rows[place].asked >= MOST_WAITS;
        if (s->recovery == ASKING)
            w->places[place].again = stuck ? RESEND : packet->flags & JOINS;
        rows[n] = place;
        lacking[n++] = lacks || stuck;
    }
    recovery_answered(s, rows, lacking, n, now, false);
}

/* Take in packets; false if none of them is a result that was waited for. */
bool atp_worker_received(AtpWorker *w, const Datagrams *packets, double now) {
    Stream *s = &w->stream;
    int64_t count = packets->count, chunks[count + 1], oldest = oldest_of(w), needless = 0;
    enum found found[count + 1];
    int32_t rows[count + 1], overflowing[count + 1];
    int where[count + 1], n = 0, m = 0, statuses = 0;
    bool had[s->count], on_path[s->paths_count];
    memset(had, 0, sizeof had);
    memset(on_path, 0, sizeof on_path);
    s->counters.handled += count;
    for (int i = 0; i < count; i++) {
        s->counters.bytes_received += packets->lengths[i];
        found[i] = sort_out(w, header(packets, i), packets->lengths[i], oldest, had, &chunks[i]);
        if (found[i] == SUM) {
            where[n] = i;
            rows[n++] = chunks[i] % s->count;
        } else if (found[i] == OVERFLOWING)
            overflowing[m++] = chunks[i] % s->count;
        else if (found[i] == NEEDLESS) {
            needless++;
            on_path[modulo(chunks[i], s->paths_count)] = true;
        } else
            statuses += found[i] == STATUS;
    }
    miss(w, packets, found, oldest, had, now);
    if (m) {
        s->heard_at = now;
        for (int i = 0; i < m; i++)
            make_raw(w, overflowing[i]);
        stream_send(s, overflowing, m, now, false);
    }
    if (n)
        settle(w, packets, where, rows, n, now);
    if (needless)
        stream_needless(s, needless, on_path, now);
    if (statuses)
        take_statuses(w, packets, found, chunks, now);
    return n || m;
}
