/* SwitchML's worker (NSDI '21, section 3): a stream of chunks through a pool of slots, self-clocked by results.

   Chunks of all tensors are dealt to the slots in turn, and a slot's packets follow each other: round r of slot i, in version r mod 2,
   is sent once round r - 1 is complete. It is number r * s + i of the stream. A chunk of floats needs the exponent that all workers
   have agreed on. So each packet carries this worker's exponent of the chunk that the slot carries next, and the result their
   maximum. Where that is unknown, because some worker has not started the next tensor yet, a bare round goes first, whose packets have
   exponents and no vectors; so it is in all slots when a stream begins. All workers see the same result and decide alike.

   The first chunk of a tensor always has such a round, which announces the tensor by its tag. Where the sum is not n times a worker's
   own, some worker sums another tensor, and a round with the announcements themselves tells who (hosts.stream.announcement). int32
   tensors need no exponents, and neither do float32 tensors with a fixed scaling factor.

   A chunk in which some value is no number, or infinite, has n rounds, each of which carries the floats of one worker as they are. All
   add them up, in the order of ranks, so every element is as IEEE 754 says.

   A chunk may have an owner (reduce-scatter, all-gather): who has nothing to give to its round sends a bare packet, and who gets
   nothing receives one (p4/include/switchml/part.p4). */
#include "core.h"

#include "inside.h"
#include "../stream/quantization.h"
#include "wire.h"

#define HEARD 4 /* queries about a chunk in vain after which this worker's go further up than its own switch */

static SwitchML *of(Stream *s) { return (SwitchML *)s; }
static SwitchmlHeader *header(const Stream *s, int64_t row) { return (SwitchmlHeader *)datagram(&s->packets, row); }
static uint32_t *tag(void *packet) { return &((SwitchmlBare *)packet)->tag; }
static uint32_t *vector(void *packet) { return (uint32_t *)((SwitchmlHeader *)packet + 1); }

void switchml_init(
    SwitchML *w, const Scheme *scheme, int32_t slots, int32_t k, int32_t recovery, const Datagrams *packets, int32_t packet_bytes) {
    stream_init(&w->stream, scheme, slots, 1, recovery);
    w->stream.k = k;
    w->stream.packets = *packets;
    w->stream.packet_bytes = packet_bytes;
    w->stream.bare_bytes = sizeof(SwitchmlBare);
    w->slots = calloc(slots, sizeof *w->slots);
    w->blocks = 1;
    for (int32_t i = 0; i < slots; i++) {
        w->slots[i].next = i;
        memset(w->slots[i].agreed, CODE_UNKNOWN, SWITCHML_BLOCKS);
        w->slots[i].giver = -1;
    }
}

void switchml_join(SwitchML *w, int32_t job, int32_t rank, uint32_t epoch, int32_t worker, int32_t workers, bool racks) {
    Stream *s = &w->stream;
    stream_join(s, job, rank, epoch, workers);
    w->worker = worker;
    w->racks = racks;
    for (int32_t i = 0; i < 2 * s->count; i++)
        *header(s, i) = (SwitchmlHeader){
            .job = job, .worker = worker, .epoch = big(epoch), .slot = big_short(i % s->count),
            .kind = i < s->count ? SWITCHML_UPDATE : SWITCHML_QUERY,
        };
}

void switchml_release(SwitchML *w) {
    for (int64_t i = 0; i < w->stream.transfers_count; i++)
        free(w->stream.transfers[i].largest);
    for (int32_t i = 0; i < w->stream.count; i++)
        free(w->slots[i].floats);
    stream_release(&w->stream);
    free(w->slots);
}

/* --- chunks and their owners */

/* The worker that owns a chunk. */
static int32_t owner_of(const Transfer *t, int64_t j) { return t->parts > 1 ? j % t->parts : t->owner; }

/* Elements of chunk j, and the first of them: in the tensor, or in the owner's part of it. */
static int64_t count_of(const Transfer *t, int64_t j, int64_t k) {
    if (t->way == ALL)
        return elements_of(t, j, k);
    int64_t left = t->elements / t->parts - j / t->parts * k;
    return left < k ? left : k;
}

static int64_t first_in_part(const Transfer *t, int64_t j, int64_t k) { return (t->way == ALL ? j : j / t->parts) * k; }

static int64_t first_of(const Transfer *t, int64_t j, int64_t k) {
    return (t->way == ALL ? 0 : j % t->parts * (t->elements / t->parts)) + first_in_part(t, j, k);
}

/* What this worker gives to a chunk, and where its sum goes. */
static const uint32_t *given(const Transfer *t, int64_t j, int64_t k) {
    return (const uint32_t *)t->values + (t->way == FROM_OWNERS ? first_in_part(t, j, k) : first_of(t, j, k));
}

static uint32_t *result_of(const Transfer *t, int64_t j, int64_t k) {
    return (uint32_t *)t->result + (t->way == TO_OWNERS ? first_in_part(t, j, k) : first_of(t, j, k));
}

/* Give a row the shape of a chunk's round, or of one that goes ahead. */
static void shape(SwitchML *w, Row *row, const Slot *slot, const Transfer *t, int64_t j) {
    set_bare(row, slot->ahead && !slot->disputed);
    row->part = 0;
    bool apart = slot->giver >= 0 && !w->whole;
    if (slot->ahead || (t->way == ALL && !apart))
        return;
    int32_t way = apart ? FROM_OWNERS : t->way, owner = apart ? slot->giver : owner_of(t, j);
    bool own = owner == w->stream.rank;
    row->bare = way == FROM_OWNERS && !own;
    row->answer_bare = way == FROM_OWNERS ? own : !own;
    row->part = big((uint32_t)way << 24 | owner);
}

/* What tells the owner, behind a packet's vector or tag. */
static uint32_t *part_behind(const Stream *s, void *packet, bool bare) {
    return (uint32_t *)((uint8_t *)packet + (bare ? s->bare_bytes : s->packet_bytes));
}

/* --- sending */

/* Whether the slot of a tensor's first chunk is at the round that announces the tensor. */
static bool announces(const Transfer *t, const Slot *slot) { return slot->next == t->start && slot->ahead; }

/* Elements of a chunk's b-th block. */
static int64_t count_of_block(const SwitchML *w, const Transfer *t, int64_t j, int b) {
    int64_t block = w->stream.k / w->blocks, left = count_of(t, j, w->stream.k) - b * block;
    return left < 0 ? 0 : left < block ? left : block;
}

/* This worker's exponents of a chunk. */
static void own_exponents(const SwitchML *w, const Transfer *t, int64_t j, uint8_t *exponents) {
    int64_t k = w->stream.k;
    for (int b = 0; b < w->blocks; b++)
        exponents[b] = t->floats && t->values
                           ? block_exponent((const float *)given(t, j, k) + b * (k / w->blocks), count_of_block(w, t, j, b))
                           : CODE_ZERO;
}

static bool not_finite(const SwitchML *w, const Slot *slot) { return memchr(slot->agreed, CODE_NOT_FINITE, w->blocks) != NULL; }

/* Put a tensor's j-th chunk into the slot's packet, or the tensor's announcement, which goes ahead of the first one where tags differ. */
static void fill_vector(const SwitchML *w, const Slot *slot, const Transfer *t, int64_t j, uint32_t *lanes) {
    int64_t k = w->stream.k, count = count_of(t, j, k);
    if (slot->ahead) {
        swap((const uint32_t *)t->announcement, lanes, k);
        return;
    }
    if (t->floats && slot->giver < 0) {
        int64_t block = k / w->blocks;
        for (int b = 0; b < w->blocks; b++) {
            const float *first = (const float *)given(t, j, k) + b * block;
            quantize(first, count_of_block(w, t, j, b), w->stream.scales[slot->agreed[b]], lanes + b * block, block);
        }
        return;
    }
    memset(lanes, 0, k * sizeof *lanes);
    if (slot->giver < 0 || slot->giver == w->stream.rank)
        swap(given(t, j, k), lanes, count);
}

/* The slot's chunk is summed float by float: first comes the first worker's. */
static void begin_apart(Slot *slot, int64_t k) {
    slot->giver = 0;
    if (!slot->floats)
        slot->floats = malloc(k * sizeof *slot->floats);
    for (int64_t e = 0; e < k; e++)
        slot->floats[e] = -0.0; /* which changes no sum, not even that of zeros below 0 */
}

/* Put a tensor's chunk into the slot's packet, and the exponent of the chunk that the slot carries next.

   A round goes ahead where the chunk's own exponent is unknown, and once for the first chunk. */
static void fill(SwitchML *w, int32_t row, const Transfer *t) {
    Stream *s = &w->stream;
    Slot *slot = &w->slots[row];
    SwitchmlHeader *packet = header(s, row);
    int64_t j = slot->next - t->start;
    if (0 <= j && j < t->length) {
        slot->ahead = !slot->announced && (j == 0 || (t->floats && slot->agreed[0] == CODE_UNKNOWN));
        if (!slot->ahead && slot->giver < 0 && t->floats && not_finite(w, slot))
            begin_apart(slot, s->k);
        shape(w, &s->rows[row], slot, t, j);
        if (!slot->ahead)
            memcpy(t->largest + j * w->blocks, slot->agreed, w->blocks);
        if (s->rows[row].bare)
            *tag(packet) = j == 0 ? big(t->tag) : 0;
        else if (t->values)
            fill_vector(w, slot, t, j, vector(packet));
        if (s->rows[row].part)
            *part_behind(s, packet, s->rows[row].bare) = s->rows[row].part;
    }
    j += slot->ahead ? 0 : s->count;
    if (0 <= j && j < t->length)
        own_exponents(w, t, j, exponents(w, packet));
}

/* Send the next packets of these slots, as far as there are chunks for them. */
static void release(SwitchML *w, const int32_t *rows, int count, double now) {
    Stream *s = &w->stream;
    int32_t ready[count + 1];
    int n = 0;
    for (int i = 0; i < count; i++) {
        Slot *slot = &w->slots[rows[i]];
        Row *row = &s->rows[rows[i]];
        SwitchmlHeader *packet = header(s, rows[i]);
        if (slot->next >= s->position)
            continue;
        ready[n++] = rows[i];
        row->chunk = slot->round * s->count + rows[i];
        row->tries = 0;
        packet->mark = 0;
        packet->version = slot->round & 1;
        memset(exponents(w, packet), CODE_UNKNOWN, w->blocks);
        packet->chunk = big(row->chunk);
        for (int64_t t = 0; t < s->transfers_count; t++)
            fill(w, rows[i], &s->transfers[t]);
    }
    if (n)
        stream_send(s, ready, n, now, false);
}

void switchml_start(SwitchML *w, const Transfer *new, double now) {
    Stream *s = &w->stream;
    int32_t idle[s->count];
    int n = 0;
    Transfer *t = stream_start(s, new);
    t->largest = malloc(t->length * w->blocks);
    for (int32_t i = 0; i < s->count; i++)
        if (s->rows[i].chunk < 0)
            idle[n++] = i;
    release(w, idle, n, now);
}

void switchml_mark_again(Stream *s, const int32_t *rows, int count) {
    for (int i = 0; i < count; i++)
        header(s, rows[i])->mark = SWITCHML_AGAIN;
}

/* Ask the switch whom it has seen in these slots. `insisting`, also the switches above it, even if another worker does. */
static void query(SwitchML *w, int32_t row, bool again, bool insisting) {
    Stream *s = &w->stream;
    SwitchmlHeader *packet = header(s, s->count + row), *update = header(s, row);
    packet->version = update->version;
    packet->chunk = update->chunk;
    packet->mark = insisting ? SWITCHML_INSISTS : again;
    packet->exponent = s->rows[row].tries; /* which the answer repeats */
}

/* Whoever asks for the rack may have stopped, or may not be heard, where a slot has been asked about often. */
void switchml_ask(Stream *s, const int32_t *rows, const bool *again, int count, bool urgent) {
    for (int i = 0; i < count; i++)
        query(of(s), rows[i], again[i], s->rows[rows[i]].asked > HEARD);
    stream_put(s, rows, count, urgent, sizeof(SwitchmlStatus), s->count);
}

/* Ask the network whom a slot's chunk lacks: where its own rack is complete, the switch queries the one above. */
void switchml_ask_whom(SwitchML *w, int64_t row) {
    int32_t rows[] = {row};
    query(w, row, true, true);
    stream_put(&w->stream, rows, 1, false, sizeof(SwitchmlStatus), w->stream.count);
}

/* --- receiving */

/* Add a worker's floats to those of the ones before; whether it is the last. Then the sum is complete. */
static bool add_apart(Stream *s, Slot *slot, const Transfer *t, int64_t j, const uint32_t *floats) {
    int64_t count = count_of(t, j, s->k);
    bool own = slot->giver == s->rank;
    for (int64_t e = 0; t->values && e < count; e++) {
        uint32_t bits = own ? given(t, j, s->k)[e] : big(floats[e]);
        float value;
        memcpy(&value, &bits, sizeof value);
        slot->floats[e] += value;
    }
    if (slot->giver + 1 < s->workers)
        return false;
    for (int64_t e = 0; t->values && e < count && (t->way == ALL || owner_of(t, j) == s->rank); e++)
        ((float *)result_of(t, j, s->k))[e] = slot->floats[e];
    return true;
}

/* Keep the exponents and the sums of a result. */
static void take(SwitchML *w, int32_t row, const SwitchmlHeader *packet) {
    Stream *s = &w->stream;
    Slot *slot = &w->slots[row];
    for (int64_t i = 0; i < s->transfers_count; i++) {
        Transfer *t = &s->transfers[i];
        int64_t j = slot->next - t->start;
        if (j < 0 || j >= t->length)
            continue;
        if (slot->ahead) {
            bool first = announces(t, slot) && t->values;
            if (first && slot->disputed)
                stream_announced(s, t, (const int32_t *)vector((void *)packet));
            slot->disputed = first && s->rows[row].bare && disputed(s, t, big(*tag((void *)packet)));
            continue;
        }
        const uint32_t *sums = vector((void *)packet);
        if (slot->giver >= 0) {
            t->remaining -= add_apart(s, slot, t, j, sums);
            continue;
        }
        if (t->values && t->floats && !s->rows[row].answer_bare) {
            int64_t block = s->k / w->blocks;
            for (int b = 0; b < w->blocks; b++) {
                float *first = (float *)result_of(t, j, s->k) + b * block;
                dequantize(sums + b * block, s->steps[t->largest[j * w->blocks + b]], first, count_of_block(w, t, j, b));
            }
        } else if (t->values && !s->rows[row].answer_bare)
            swap(sums, result_of(t, j, s->k), count_of(t, j, s->k));
        t->remaining--;
    }
}

/* The slot's round is complete: the next one is about the same chunk where that one went ahead, else about a later one. */
static void turn(SwitchML *w, Slot *slot, const SwitchmlHeader *packet) {
    slot->round++;
    if (slot->giver >= 0 && ++slot->giver < w->stream.workers)
        return; /* the same chunk's next worker */
    slot->giver = -1;
    slot->announced = slot->ahead && !slot->disputed;
    slot->next += slot->ahead ? 0 : w->stream.count;
    memcpy(slot->agreed, exponents(w, (SwitchmlHeader *)packet), w->blocks);
}

/* Learn from a status whom a switch lacks: next to this worker it may be this one, further up it is another rack. Whether it tells
   of a chunk that waits, and answers a query since that was sent. */
static bool learn(SwitchML *w, const SwitchmlStatus *status, bool *lacks) {
    const SwitchmlHeader *packet = &status->header;
    int32_t row = big_short(packet->slot), ahead = big(packet->epoch) - w->stream.epoch;
    Slot *slot = &w->slots[row];
    if (w->stream.rows[row].chunk < 0 || (uint32_t)w->stream.rows[row].chunk != big(packet->chunk))
        return false;
    if (ahead) {
        slot->newer |= ahead > 0;
        return false;
    }
    uint32_t seen = big(status->seen);
    if (packet->mark < SWITCHML_LEVELS)
        slot->seen[packet->mark] = seen;
    else if (w->stream.rows[row].part)
        slot->seen[SWITCHML_LEVELS - 1] = seen; /* to an owner's switch it may be as far again from the root */
    *lacks = packet->mark == 0 && !(seen >> w->worker & 1);
    return !*lacks || packet->exponent == (uint8_t)w->stream.rows[row].tries;
}

static void take_statuses(SwitchML *w, const Datagrams *packets, const int *where, int statuses, const bool *complete, double now) {
    Stream *s = &w->stream;
    int32_t rows[statuses];
    bool lacking[statuses], had[s->count];
    int n = 0;
    memset(had, 0, sizeof had);
    for (int i = 0; i < statuses; i++) {
        const SwitchmlStatus *status = (SwitchmlStatus *)datagram(packets, where[i]);
        int32_t row = big_short(status->header.slot);
        bool lacks;
        if (!learn(w, status, &lacks) || had[row])
            continue;
        had[row] = true;
        if (complete[row])
            continue; /* its result has come, too */
        rows[n] = row;
        lacking[n++] = lacks;
    }
    recovery_answered(s, rows, lacking, n, now, w->racks);
}

/* Whether a result can be so long. */
static bool of_result(const Stream *s, uint32_t length) {
    int32_t bytes = length;
    return bytes == s->bare_bytes || bytes == s->packet_bytes || bytes == s->bare_bytes + PART_BYTES || bytes == s->packet_bytes + PART_BYTES;
}

/* Whether a result has the shape that a row waits for, and the owner. */
static bool fits(const Stream *s, const Row *row, const SwitchmlHeader *packet, uint32_t length) {
    return (int32_t)length == stream_bytes(s, row, row->answer_bare) &&
           (!row->part || *part_behind(s, (void *)packet, row->answer_bare) == row->part);
}

/* Take in packets; false if none of them is a result that was waited for. */
bool switchml_received(SwitchML *w, const Datagrams *packets, double now) {
    Stream *s = &w->stream;
    int32_t rows[packets->count + 1];
    int places[packets->count + 1], statuses[packets->count + 1], n = 0, m = 0;
    bool once[packets->count + 1], had[s->count], on_path[] = {true};
    int64_t needless = 0;
    memset(had, 0, sizeof had);
    s->counters.handled += packets->count;
    for (int i = 0; i < packets->count; i++) {
        const SwitchmlHeader *packet = (SwitchmlHeader *)datagram(packets, i);
        uint32_t length = packets->lengths[i];
        s->counters.bytes_received += length;
        bool is_result = of_result(s, length) && packet->kind == SWITCHML_RESULT;
        bool is_status = length == sizeof(SwitchmlStatus) && packet->kind == SWITCHML_STATUS;
        int32_t slot = big_short(packet->slot);
        if (!(is_result || is_status) || packet->job != s->job || slot >= s->count)
            s->counters.malformed++;
        else if (is_status)
            statuses[m++] = i;
        else if (packet->epoch != big(s->epoch))
            s->counters.outdated++;
        else if (s->rows[slot].chunk < 0 || (uint32_t)s->rows[slot].chunk != big(packet->chunk) || had[slot])
            needless++;
        else if (!fits(s, &s->rows[slot], packet, length))
            s->counters.malformed++;
        else {
            had[slot] = true;
            places[n] = i;
            once[n] = packet->mark == 0;
            rows[n++] = slot;
        }
    }
    if (m)
        take_statuses(w, packets, statuses, m, had, now);
    if (needless)
        stream_needless(s, needless, on_path, now);
    if (!n)
        return false;
    stream_settled(s, rows, once, n, now);
    for (int i = 0; i < n; i++) {
        const SwitchmlHeader *packet = (SwitchmlHeader *)datagram(packets, places[i]);
        take(w, rows[i], packet);
        turn(w, &w->slots[rows[i]], packet);
    }
    for (int64_t i = 0; i < s->transfers_count;)
        if (s->transfers[i].remaining)
            i++;
        else
            stream_finish(s, i);
    release(w, rows, n, now);
    return true;
}

/* --- over UDP: packets are what the driver sends and receives */

static bool received(Stream *s, const Datagrams *packets, double now) { return switchml_received(of(s), packets, now); }

static const Scheme over_udp = {.mark_again = switchml_mark_again, .ask = switchml_ask, .received = received};

/* `packets` has two a slot: its update, and behind all updates its query. */
SwitchML *switchml_new(int32_t slots, int32_t k, int32_t recovery, const Datagrams *packets, int32_t packet_bytes) {
    SwitchML *w = calloc(1, sizeof *w);
    switchml_init(w, &over_udp, slots, k, recovery, packets, packet_bytes);
    return w;
}

void switchml_free(SwitchML *w) {
    switchml_release(w);
    free(w);
}
