/* What a parameter server adds up: sums of the switches, parts of them and single packets, every worker exactly once.

   Two chunks of each place are enough: who sends chunk q has the result of chunk q - w, which no worker could have without all workers
   having sent that, and so having the result of chunk q - 2w. A packet whose workers are in already, some or all of them, is not
   added: those of them that are missing send theirs again. */
#include "inside.h"

Merger *merger_new(int32_t window, int32_t workers, int32_t k, int64_t aggregators, const Datagrams *results, int32_t packet_bytes) {
    Merger *m = calloc(1, sizeof *m);
    int64_t rows = 2 * (int64_t)window;
    m->window = window;
    m->workers = workers;
    m->k = k;
    m->aggregators = aggregators;
    m->results = *results;
    m->packet_bytes = packet_bytes;
    m->members = calloc(workers, sizeof *m->members);
    m->rows = calloc(rows, sizeof *m->rows);
    m->seen = calloc(rows * workers, sizeof *m->seen);
    m->raw_seen = calloc(rows * workers, sizeof *m->raw_seen);
    m->total = calloc(rows * k + 1, sizeof *m->total);
    m->index = calloc(window, sizeof *m->index);
    m->attempts = calloc(window, sizeof *m->attempts);
    m->held = calloc(aggregators, sizeof *m->held);
    m->assigned = calloc(aggregators, sizeof *m->assigned);
    m->before[0] = m->before[1] = NO_SEQUENCE;
    for (int64_t row = 0; row < rows; row++)
        m->rows[row].chunk = m->rows[row].raw_chunk = -1;
    return m;
}

/* Be the server of this number of the job's, of a group. Chunk q is added by server q mod S. What workers are is set by then. */
void merger_join(Merger *m, int32_t job, uint32_t epoch, int32_t server, int32_t servers) {
    int64_t common = m->window;
    m->job = job;
    m->epoch = epoch;
    m->server = server;
    m->servers = servers;
    for (int64_t other = servers; other;) { /* the greatest divisor of both */
        int64_t rest = common % other;
        common = other;
        other = rest;
    }
    atp_beginning(job, m->window, m->aggregators, m->index, m->attempts, m->held);
    for (int32_t place = 0; place < m->window; place++)
        if (place % common == server % common)
            m->assigned[m->index[place]] = true;
    for (int64_t row = 0; row < 2 * m->window; row++)
        header(&m->results, row)->epoch = big(epoch);
}

void merger_free(Merger *m) {
    for (int64_t row = 0; row < 2 * m->window; row++)
        free(m->rows[row].raw);
    void *held[] = {m->members, m->rows, m->seen, m->raw_seen, m->total, m->index, m->attempts, m->held, m->assigned,
                    m->finished, m->asking, m->asked, m->ready, m};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        free(held[i]);
}

enum found { SUMMAND, OWN_VALUES, QUESTION, OTHER }; /* what a datagram may be */

/* What a datagram is to this server, the chunk that it is about, and which workers are in it.

   No chunk that is newer than the newest so far by more than the servers' windows can be under way. */
static enum found sort_out(Merger *m, const AtpHeader *packet, uint32_t length, int64_t *chunk, bool *who) {
    bool taken = packet->kind == ATP_GRADIENT || packet->kind == ATP_RAW || packet->kind == ATP_QUERY, anybody = false;
    bool bare = packet->kind == ATP_GRADIENT && length == sizeof(AtpBare);
    if (!taken || (!bare && length != (packet->kind == ATP_QUERY ? sizeof(AtpHeader) : (uint32_t)m->packet_bytes)))
        return OTHER;
    if (big(packet->epoch) != m->epoch) {
        m->outdated++;
        return OTHER;
    }
    int64_t q = *chunk = chunk_near(packet, m->newest);
    if (job_of(packet) != m->job || q < 0 || q > m->newest + (int64_t)m->window * m->servers || q % m->servers != m->server)
        return OTHER;
    uint32_t zero = big(packet->bitmap0), one = big(packet->bitmap1);
    for (int32_t rank = 0; rank < m->workers; rank++) {
        const Member *its = &m->members[rank];
        who[rank] = one >> its->bit1 & 1 && (its->local || zero == 0 || zero >> its->number & 1);
        anybody |= who[rank];
    }
    if (!anybody)
        return OTHER;
    return packet->kind == ATP_GRADIENT ? SUMMAND : packet->kind == ATP_RAW ? OWN_VALUES : QUESTION;
}

/* Begin a chunk in a row that was another one's. */
static void begin(Merger *m, int64_t row, int64_t chunk, bool bare) {
    SumRow *sum = &m->rows[row];
    m->newest = chunk > m->newest ? chunk : m->newest;
    sum->chunk = chunk;
    sum->complete = false;
    sum->bare = bare;
    sum->flags = sum->exponent = 0;
    sum->tag = 0;
    memset(m->seen + row * m->workers, 0, m->workers);
    memset(m->raw_seen + row * m->workers, 0, m->workers);
    memset(m->total + row * m->k, 0, m->k * sizeof *m->total);
    header(&m->results, row)->flags = 0;
}

/* Take `who` into a set of workers; whether all are in. */
static bool add_all(const Merger *m, bool *set, const bool *who) {
    bool all = true;
    for (int32_t rank = 0; rank < m->workers; rank++) {
        set[rank] |= who[rank];
        all &= set[rank];
    }
    return all;
}

static bool meet(const Merger *m, const bool *set, const bool *who) {
    bool any = false;
    for (int32_t rank = 0; rank < m->workers; rank++)
        any |= set[rank] && who[rank];
    return any;
}

static void finished(Merger *m, int64_t row) {
    GROW(m->finished, m->finished_room, m->finished_count + 1);
    m->finished[m->finished_count++] = row;
}

static void asked(Merger *m, int64_t row, const bool *who) {
    GROW(m->asked, m->asked_room, m->asked_count + m->workers);
    for (int32_t rank = 0; rank < m->workers; rank++)
        if (who[rank])
            m->asked[m->asked_count++] = (Asked){row, rank};
}

/* Whoever asks is answered for that; another who sends again after the result has not got it. */
static bool asks_for_result(const AtpHeader *packet) { return (packet->flags & JOINS) == RESEND; }

/* Add a gradient, every worker once. Of a complete row the result is asked for by a packet that is sent again, except by a worker that
   was told to. What would begin a row anew that is complete since this batch is left out: its result is not sent yet. What is bare is
   not added to vectors, nor the other way round. */
static void add(Merger *m, const Datagrams *packets, int64_t i, int64_t chunk, const bool *who, bool *done) {
    int64_t row = chunk % (2 * m->window);
    SumRow *sum = &m->rows[row];
    const AtpHeader *packet = header(packets, i);
    bool bare = packets->lengths[i] == sizeof(AtpBare);
    if (chunk < sum->chunk || (chunk > sum->chunk && done[row]))
        return;
    if (chunk > sum->chunk)
        begin(m, row, chunk, bare);
    if (sum->complete) {
        if (asks_for_result(packet))
            asked(m, row, who);
        return;
    }
    if (bare != sum->bare || meet(m, m->seen + row * m->workers, who))
        return;
    int64_t *total = m->total + row * m->k;
    const uint32_t *lanes = vector(packets, i);
    if (bare) {
        const AtpBare *its = bare_at(packets, i);
        sum->tag += big(its->tag);
        sum->exponent = its->exponent > sum->exponent ? its->exponent : sum->exponent;
    } else
        for (int32_t e = 0; e < m->k; e++)
            total[e] += (int32_t)big(lanes[e]);
    sum->flags |= packet->flags;
    header(&m->results, row)->index = packet->index;
    if (add_all(m, m->seen + row * m->workers, who)) {
        sum->complete = done[row] = true;
        finished(m, row);
    }
}

/* The aggregator of the chunk one window later: another one after a collision, else as before. */
static int64_t assign(Merger *m, const SumRow *sum, int64_t taken) {
    int64_t place = sum->chunk % m->window;
    if (!(sum->flags & COLLISION))
        return taken;
    m->held[m->index[place]]--;
    m->attempts[place]++;
    taken = following(m->job, place, &m->attempts[place], taken, m->held, m->aggregators);
    m->held[taken]++;
    m->index[place] = taken;
    m->assigned[taken] = true;
    return taken;
}

/* Make the result of a complete sum: integers, or a request for raw values. */
static void finish(Merger *m, int64_t row) {
    const SumRow *sum = &m->rows[row];
    AtpHeader *result = header(&m->results, row);
    const int64_t *total = m->total + row * m->k;
    uint32_t *lanes = vector(&m->results, row);
    bool overflow = sum->flags & OVERFLOW;
    for (int32_t e = 0; e < m->k; e++)
        overflow |= llabs(total[e]) > INT32_MAX;
    for (int32_t e = 0; e < m->k; e++)
        lanes[e] = overflow ? 0 : big(total[e]);
    if (sum->bare) {
        bare_at(&m->results, row)->tag = big(sum->tag);
        bare_at(&m->results, row)->exponent = sum->exponent;
    }
    result->kind = ATP_RESULT;
    result->flags = (sum->flags & (ECN | COLLISION)) | (sum->flags & JOINS ? RESEND : 0) | (overflow ? OVERFLOW : 0);
    result->owner = owner_of(m->job, sum->chunk);
    result->next_index = big_short(assign(m, sum, big_short(result->index)));
}

/* Whether a result asks for raw values. */
static bool wants_raw(const Merger *m, int64_t row) { return (header(&m->results, row)->flags & (OVERFLOW | RAW)) == OVERFLOW; }

/* The sum over workers: int32 wraps around, float32 is added in the order of ranks, in double precision. */
static void sum_raw(Merger *m, int64_t row, bool integers) {
    const int32_t *raw = m->rows[row].raw;
    uint32_t *lanes = vector(&m->results, row);
    for (int32_t e = 0; e < m->k; e++) {
        double floats = 0;
        uint32_t whole = 0, bits;
        for (int32_t rank = 0; rank < m->workers; rank++) {
            float value;
            memcpy(&value, &raw[(int64_t)rank * m->k + e], sizeof value);
            floats = rank ? floats + value : value; /* so that the sum of zeros below 0 is one */
            whole += (uint32_t)raw[(int64_t)rank * m->k + e];
        }
        float sum = (float)floats;
        memcpy(&bits, &sum, sizeof bits);
        lanes[e] = big(integers ? whole : bits);
    }
}

/* Keep a worker's own values; when all have come, their sum is the row's result. To a bare row come announcements, from those who have
   seen that they differ. */
static void take_raw(Merger *m, const Datagrams *packets, int64_t i, int64_t chunk, const bool *who, bool *done) {
    int64_t row = chunk % (2 * m->window);
    SumRow *sum = &m->rows[row];
    const AtpHeader *packet = header(packets, i);
    bool *seen = m->raw_seen + row * m->workers;
    if (chunk < sum->chunk || (chunk > sum->chunk && done[row]))
        return;
    if (chunk > sum->chunk)
        begin(m, row, chunk, false);
    if (sum->complete && sum->bare)
        header(&m->results, row)->flags |= OVERFLOW;
    if (sum->complete && !wants_raw(m, row)) {
        if (asks_for_result(packet))
            asked(m, row, who);
        return;
    }
    if (!sum->complete)
        return; /* nobody was asked for these */
    if (sum->raw_chunk != chunk) {
        free(sum->raw);
        sum->raw = calloc((int64_t)m->workers * m->k + 1, sizeof *sum->raw);
        sum->raw_chunk = chunk;
    }
    for (int32_t rank = 0; rank < m->workers; rank++)
        if (who[rank])
            swap(vector(packets, i), (uint32_t *)sum->raw + (int64_t)rank * m->k, m->k);
    if (!add_all(m, seen, who))
        return;
    sum_raw(m, row, packet->flags & INTEGER);
    sum->bare = false;
    header(&m->results, row)->flags |= OVERFLOW | RAW | RESEND;
    memset(seen, 0, m->workers);
    free(sum->raw);
    sum->raw = NULL;
    sum->raw_chunk = -1;
    done[row] = true;
    finished(m, row);
}

/* A result is asked for: it goes to one worker, or to all of a rack, or to all. */
static void ready(Merger *m, int64_t row, const bool *who) {
    int32_t count = 0, first = -1, rack = -1;
    for (int32_t rank = 0; rank < m->workers; rank++) {
        if (!who[rank])
            continue;
        if (!count++) {
            first = rank;
            rack = m->members[rank].rack;
        }
        rack = m->members[rank].rack == rack ? rack : -1;
    }
    GROW(m->ready, m->ready_room, m->ready_count + 1);
    m->ready[m->ready_count++] = (Ready){row, count == 1 ? first : -1, rack};
}

/* Tell who is in a chunk, and how the one who asks sends again, if it is not: as for the first time where none is in; else so that no
   aggregator keeps it. */
static void tell(Merger *m, const AtpHeader *packet, int32_t rank, const bool *have, const Datagrams *statuses) {
    uint32_t zero = 0, one = 0;
    if (m->asking_count == statuses->count)
        return; /* whoever asks asks again */
    for (int32_t other = 0; other < m->workers && have; other++)
        if (have[other]) {
            const Member *its = &m->members[other];
            one |= 1u << its->bit1;
            if (its->rack == m->members[rank].rack && !m->members[rank].local)
                zero |= 1u << its->number;
        }
    AtpHeader *status = header(statuses, m->asking_count);
    *status = *packet;
    status->bitmap0 = big(zero);
    status->bitmap1 = big(one);
    status->kind = ATP_STATUS;
    status->flags = (packet->flags & RAW) | (packet->flags & RAW || one ? RESEND : ASKED);
    GROW(m->asking, m->asking_room, m->asking_count + 1);
    m->asking[m->asking_count++] = rank;
}

/* Answer a query. Nothing is said of rows that are `done` since this batch: all get their results; nor of complete ones whose results
   are on their way, as far as the query knows (succession.c). */
static void answer(Merger *m, const AtpHeader *packet, int64_t chunk, const bool *who, const bool *done, const Datagrams *statuses) {
    int64_t row = chunk % (2 * m->window);
    const SumRow *sum = &m->rows[row];
    int32_t rank = big_short(packet->next_index) % RANKS;
    bool raw = packet->flags & RAW;
    const bool *have = NULL;
    if (chunk < sum->chunk || rank >= m->workers || done[row])
        return; /* all have its result, or no worker asks */
    if (chunk == sum->chunk) {
        if (sum->complete && !(raw && wants_raw(m, row))) {
            if (!(packet->flags & JOINS))
                return; /* it is on its way, as far as this worker knows */
            header(&m->results, row)->flags |= RESEND; /* for whoever gets it now, this round trip tells nothing */
            ready(m, row, who);
            return;
        }
        have = (raw ? m->raw_seen : m->seen) + row * m->workers;
    }
    tell(m, packet, rank, have, statuses);
}

static int by_row(const void *a, const void *b) {
    const Asked *x = a, *y = b;
    return x->row != y->row ? (x->row > y->row) - (x->row < y->row) : (x->worker > y->worker) - (x->worker < y->worker);
}

static int by_row_and_rack(const void *a, const void *b) {
    int order = by_row(a, b);
    return order ? order : (((const Ready *)a)->rack > ((const Ready *)b)->rack) - (((const Ready *)a)->rack < ((const Ready *)b)->rack);
}

/* Each once, in order. */
static int64_t unique(void *array, int64_t count, size_t size, int (*compare)(const void *, const void *)) {
    char *all = array;
    int64_t n = 0;
    if (count > 1)
        qsort(array, count, size, compare);
    for (int64_t i = 0; i < count; i++)
        if (!n || compare(all + (n - 1) * size, all + i * size))
            memmove(all + n++ * size, all + i * size, size);
    return n;
}

/* Take in packets. A row is finished twice where integers did not do: first to ask for raw values, then with their sum. The headers of
   statuses that queries ask for are written to the first of `statuses`. */
void merger_take(Merger *m, const Datagrams *packets, const Datagrams *statuses) {
    int64_t count = packets->count, rows = 2 * (int64_t)m->window;
    int64_t *chunks = malloc((count + 1) * sizeof *chunks);
    enum found *found = malloc((count + 1) * sizeof *found);
    bool *who = malloc(count * m->workers + 1), *done = calloc(rows, sizeof *done);
    m->finished_count = m->asking_count = m->asked_count = m->ready_count = 0;
    for (int64_t i = 0; i < count; i++)
        found[i] = sort_out(m, header(packets, i), packets->lengths[i], &chunks[i], who + i * m->workers);
    for (int64_t i = 0; i < count; i++)
        if (found[i] == SUMMAND)
            add(m, packets, i, chunks[i], who + i * m->workers, done);
    for (int64_t i = 0; i < m->finished_count; i++)
        finish(m, m->finished[i]);
    for (int64_t i = 0; i < count; i++)
        if (found[i] == OWN_VALUES)
            take_raw(m, packets, i, chunks[i], who + i * m->workers, done);
    for (int64_t i = 0; i < count; i++)
        if (found[i] == QUESTION)
            answer(m, header(packets, i), chunks[i], who + i * m->workers, done, statuses);
    for (int64_t i = 0; i < m->finished_count; i++)
        merger_name(m, m->finished[i]);
    m->asked_count = unique(m->asked, m->asked_count, sizeof *m->asked, by_row);
    m->ready_count = unique(m->ready, m->ready_count, sizeof *m->ready, by_row_and_rack);
    free(chunks);
    free(found);
    free(who);
    free(done);
}

/* By worker, whether it is missing in a chunk. */
void merger_missing(const Merger *m, int64_t chunk, bool *missing) {
    int64_t row = chunk % (2 * m->window);
    const SumRow *sum = &m->rows[row];
    const bool *seen = (sum->raw_chunk == chunk ? m->raw_seen : m->seen) + row * m->workers;
    for (int32_t rank = 0; rank < m->workers; rank++)
        missing[rank] = sum->chunk == chunk ? !seen[rank] : sum->chunk < chunk;
}
