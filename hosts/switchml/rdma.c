/* SwitchML's worker over RoCE (NSDI '21, the in-switch RDMA implementation): chunks are messages that the worker writes to the switch,
   and sums are what the switch writes to the worker's memory.

   A queue pair is a slot: it has one message under way, of as many packets as it has slots in the switches' pool. So slots and chunks
   of a packet are the message's times that number, plus the packet's place in it. What has no vector is one packet, with a header as
   over UDP. Until something has come over a queue pair, and whenever a message is sent again, a packet goes before that and tells the
   switch where results are to be written: the switch may be new.

   The immediate of a message's last packet has 32 bits: whether it is sent again, the number of the round modulo 8, and four exponents
   of seven bits. With them e is between -62 and 62: smaller values count as 2^-62, and of larger ones the chunk is summed as floats. */
#include "inside.h"

#include "../stream/quantization.h"

#define FIRST_PAIR 17  /* numbers 0 and 1 mean others, and Linux begins with this one, too */
#define NUMBERS 0xffffff /* of packets */
#define JUMP 0x10000     /* numbers that a switch leaves out when it is new: packets of before may still be on their way */
#define TURNS 7        /* the bits of a round's number in an immediate */
#define SMALLEST (BIAS - 62) /* code of the exponent -62 */
#define LARGEST (BIAS + 62)

enum { SHORT_ZERO = 0, SHORT_NOT_FINITE = 126, SHORT_UNKNOWN = 127 }; /* codes of exponents in seven bits */

typedef struct {
    SwitchmlHeader header;
    uint32_t queue_pair, psn, key;
    uint32_t address[2];
} Connect;

static SwitchMLRdma *of(Stream *s) { return (SwitchMLRdma *)s; }

static uint32_t shortened(uint8_t code) {
    if (code == CODE_ZERO)
        return SHORT_ZERO;
    if (code == CODE_UNKNOWN)
        return SHORT_UNKNOWN;
    if (code > LARGEST)
        return SHORT_NOT_FINITE;
    return code < SMALLEST ? 1 : code - SMALLEST + 1;
}

static uint8_t lengthened(uint32_t code) {
    if (code == SHORT_ZERO)
        return CODE_ZERO;
    if (code == SHORT_UNKNOWN)
        return CODE_UNKNOWN;
    return code == SHORT_NOT_FINITE ? CODE_NOT_FINITE : code + SMALLEST - 1;
}

static int32_t set_bytes(const SwitchMLRdma *w) { return 4 * w->switchml.stream.k; }
static int64_t slot_bytes(const SwitchMLRdma *w) { return 2 * (int64_t)set_bytes(w) + sizeof(SwitchmlStatus); }
static int32_t rows_of_slot(const SwitchMLRdma *w) { return 1 + 2 * w->message; }

/* --- sending */

static uint32_t immediate_of(const SwitchMLRdma *w, int32_t slot, SwitchmlHeader *message) {
    uint32_t found = (message->mark & 1u) << 31 | (uint32_t)(w->switchml.slots[slot].round & TURNS) << 28;
    for (int b = 0; b < w->switchml.blocks; b++)
        found |= shortened(exponents(&w->switchml, message)[b]) << 7 * (SWITCHML_BLOCKS - 1 - b);
    return found;
}

/* Write so many bytes of a message of this slot's; returns how many rows of packets, from `row` on. */
static int write(SwitchMLRdma *w, int32_t slot, SwitchmlHeader *message, const void *payload, int32_t bytes, int64_t row) {
    uint32_t chunk = big(message->chunk) * w->message, immediate = immediate_of(w, slot, message);
    uint64_t address = (uint64_t)w->switchml.stream.epoch << 32 | chunk;
    uint32_t key = (uint32_t)message->version << 16 | slot * w->message;
    w->switchml.stream.counters.handled++;
    if (w->numbers) {
        uint8_t *work = datagram(&w->packets, row);
        bool anew = bytes == sizeof(Connect) && w->switchml.stream.rows[slot].tries;
        const RoceWork told = {slot, immediate, key, bytes, address, anew};
        memcpy(work, &told, sizeof told);
        memcpy(work + sizeof told, payload, bytes);
        w->packets.lengths[row] = sizeof told + bytes;
        return 1;
    }
    return roce_write(&w->endpoint, slot, payload, bytes, address, key, immediate, &w->packets, row, w->packets.lengths);
}

/* Of a packet of a message that has no vector: its header, as the switch counts slots and chunks. */
static void place(const SwitchMLRdma *w, int32_t slot, SwitchmlHeader *header, int32_t packet) {
    header->slot = big_short(slot * w->message + packet);
    header->chunk = big(big(header->chunk) * w->message + packet);
}

static int connect(SwitchMLRdma *w, int32_t slot, SwitchmlHeader *message, int64_t row) {
    const RoceRegion *r = &w->endpoint.regions[0];
    uint64_t address = r->address + slot * slot_bytes(w);
    uint32_t own = w->numbers ? w->numbers[slot] : FIRST_PAIR + slot;
    Connect c = {*message, big(own), big((w->endpoint.pairs[slot].newest + JUMP) & NUMBERS), big(r->key), {big(address >> 32), big(address)}};
    c.header.kind = SWITCHML_CONNECT;
    place(w, slot, &c.header, 0);
    return write(w, slot, message, &c, sizeof c, row);
}

/* Put a slot's message, or what asks about it, into packets; returns how many rows, from the first of the slot's on. */
static int pack(SwitchMLRdma *w, int32_t slot, int64_t behind, int32_t length, int64_t *first) {
    Stream *s = &w->switchml.stream;
    SwitchmlHeader *message = (SwitchmlHeader *)datagram(&s->packets, slot + behind);
    SwitchmlStatus bare; /* or an update's tag in place of the bitmap */
    int count = 0;
    *first = (int64_t)slot * rows_of_slot(w);
    if (behind) {
        *first += 1 + w->message;
        for (int packet = 0; packet < (s->rows[slot].bare ? 1 : w->message); packet++) {
            memcpy(&bare, message, sizeof bare);
            place(w, slot, &bare.header, packet);
            count += write(w, slot, message, &bare, sizeof bare, *first + count);
        }
        return count;
    }
    if (!w->connected[slot] || s->rows[slot].tries)
        count += connect(w, slot, message, *first);
    else
        ++*first;
    if (length == s->packet_bytes)
        return count + write(w, slot, message, message + 1, set_bytes(w), *first + count);
    memcpy(&bare, message, sizeof bare);
    place(w, slot, &bare.header, 0);
    return count + write(w, slot, message, &bare, sizeof bare, *first + count);
}

static void put(Stream *s, const int32_t *rows, int count, bool urgent, int32_t length, int64_t behind) {
    SwitchMLRdma *w = of(s);
    int32_t leaving[count * rows_of_slot(w) + 1];
    int n = 0;
    for (int i = 0; i < count; i++) {
        int64_t first;
        int packets = pack(w, rows[i], behind, length, &first);
        for (int p = 0; p < packets; p++) {
            leaving[n++] = first + p;
            s->counters.bytes_sent += w->packets.lengths[first + p];
        }
        int more = packets - 1 + (w->numbers && length == s->packet_bytes ? w->message - 1 : 0); /* than the one that the stream counts */
        *(behind ? &s->counters.queries : &s->counters.sent) += more;
        s->counters.retransmissions += !behind && s->rows[rows[i]].tries ? more : 0;
    }
    outbox_put(&s->outbox, leaving, n, 0, 0, 0, urgent);
}

/* --- receiving */

/* Have SwitchML take in a message that has come whole. */
static bool take(SwitchMLRdma *w, const RoceCompletion *c, double now) {
    SwitchML *switchml = &w->switchml;
    Stream *s = &switchml->stream;
    int32_t slot = c->queue_pair;
    SwitchmlHeader *header = (SwitchmlHeader *)w->taken;
    uint32_t length = sizeof *header + c->bytes;
    int64_t place = c->message - (w->landing + slot * slot_bytes(w));
    w->connected[slot] = true;
    if (place == 2 * set_bytes(w) && c->bytes == sizeof(SwitchmlStatus)) {
        memcpy(header, c->message, c->bytes);
        length = c->bytes;
        uint32_t awaited = s->rows[slot].chunk;
        int32_t its = big_short(header->slot) - slot * w->message; /* which packet of the message it is about */
        if (its < 0 || its >= w->message) {
            s->counters.malformed++;
            return false;
        }
        header->chunk = big(big(header->chunk) == awaited * w->message + its ? awaited : ~awaited);
    } else if ((place == 0 || place == set_bytes(w)) && c->bytes == set_bytes(w)) {
        bool its = (place > 0) == (switchml->slots[slot].round & 1) && (c->immediate >> 28 & TURNS) == (switchml->slots[slot].round & TURNS);
        *header = (SwitchmlHeader){
            .job = s->job, .kind = SWITCHML_RESULT, .mark = c->immediate >> 31, .epoch = big(s->epoch),
            .chunk = big(its ? s->rows[slot].chunk : ~s->rows[slot].chunk),
        };
        memcpy(header + 1, c->message, c->bytes);
    } else {
        s->counters.malformed++;
        return false;
    }
    header->slot = big_short(slot);
    if (header->kind == SWITCHML_RESULT)
        for (int b = 0; b < switchml->blocks; b++)
            exponents(switchml, header)[b] = lengthened(c->immediate >> 7 * (SWITCHML_BLOCKS - 1 - b) & 0x7f);
    const Datagrams one = {w->taken, 0, 1, &length};
    return switchml_received(switchml, &one, now);
}

/* What another's interface tells of a message that has come: not where it is, but that follows from its length and its round. */
static bool told(SwitchMLRdma *w, const uint8_t *datagram, double now) {
    RoceWork work;
    memcpy(&work, datagram, sizeof work);
    if (work.pair >= (uint32_t)w->endpoint.pairs_count)
        return false;
    int32_t set = work.bytes == sizeof(SwitchmlStatus) ? 2 : w->switchml.slots[work.pair].round & 1;
    uint8_t *message = w->landing + work.pair * slot_bytes(w) + set * set_bytes(w);
    const RoceCompletion complete = {work.pair, work.immediate, message, work.bytes};
    return take(w, &complete, now);
}

/* Datagrams that were no packets of this worker's; what is out of sequence may be a loss. */
static int64_t refused(const RoceDropped *d) { return d->malformed + d->icrc + d->queue_pair + d->key + d->bounds; }

bool rdma_received(SwitchMLRdma *w, const Datagrams *packets, double now) {
    Stream *s = &w->switchml.stream;
    bool any = false;
    int64_t before = refused(&w->endpoint.dropped), received = s->counters.bytes_received;
    for (int64_t i = 0; i < packets->count; i++) {
        RoceCompletion complete;
        received += packets->lengths[i];
        if (w->numbers)
            any |= told(w, datagram(packets, i), now);
        else if (roce_received(&w->endpoint, datagram(packets, i), packets->lengths[i], &complete))
            any |= take(w, &complete, now);
    }
    s->counters.bytes_received = received;
    s->counters.malformed += refused(&w->endpoint.dropped) - before;
    return any;
}

static bool received(Stream *s, const Datagrams *packets, double now) { return rdma_received(of(s), packets, now); }

static const Scheme over_roce = {
    .mark_again = switchml_mark_again, .ask = switchml_ask, .received = received, .put = put,
};

/* `pairs` slots, whose messages have so many packets of k integers each; `messages` has two a slot, as over UDP, and `packets` what
   rows_of_slot says. */
SwitchMLRdma *rdma_new(
    int32_t pairs, int32_t message, int32_t k, int32_t recovery, const Datagrams *messages, int32_t message_bytes,
    const Datagrams *packets) {
    SwitchMLRdma *w = calloc(1, sizeof *w);
    Datagrams behind_exponents = *messages;
    int32_t blocks = message < SWITCHML_BLOCKS ? message : SWITCHML_BLOCKS;
    behind_exponents.first += blocks > 1 ? blocks : 0;
    switchml_init(&w->switchml, &over_roce, pairs, message * k, recovery, &behind_exponents, message_bytes);
    w->switchml.whole = true;
    w->switchml.blocks = blocks;
    w->packets = *packets;
    w->message = message;
    w->connected = calloc(pairs, sizeof *w->connected);
    w->landing = calloc(pairs, slot_bytes(w));
    w->taken = (uint8_t *)malloc(SWITCHML_BLOCKS + message_bytes) + SWITCHML_BLOCKS;
    w->endpoint.payload = 4 * k;
    w->endpoint.first_pair = FIRST_PAIR;
    w->endpoint.pairs_count = pairs;
    w->endpoint.pairs = calloc(pairs, sizeof *w->endpoint.pairs);
    return w;
}

/* Be a member of the group that switchml_join has told, at this end and that one: IPv4 addresses in the network's byte order. */
void rdma_join(SwitchMLRdma *w, uint32_t own, uint32_t other, uint16_t own_port, uint16_t port) {
    const Stream *s = &w->switchml.stream;
    RoceEndpoint *e = &w->endpoint;
    e->source = own;
    e->destination = other;
    e->source_port = own_port;
    e->port = port;
    e->regions[0] = (RoceRegion){.length = e->pairs_count * slot_bytes(w), .key = s->epoch, .memory = w->landing};
    e->regions_count = 1;
    uint32_t start = s->epoch * 0x9e3779b1u; /* far from an earlier group's numbers, of which some may still be on their way */
    for (int32_t slot = 0; slot < e->pairs_count; slot++) {
        e->pairs[slot].remote = (s->job + 1) << 16 | w->switchml.worker << 11 | slot * w->message;
        e->pairs[slot].psn = start & NUMBERS;
        e->pairs[slot].newest = (start >> 4) & NUMBERS;
    }
}

int64_t rdma_landing_bytes(const SwitchMLRdma *w) { return w->endpoint.pairs_count * slot_bytes(w); }

/* Have the packets made by an interface of the kernel's, whose queue pairs have these numbers; the key is that of the landing. */
void rdma_use_interface(SwitchMLRdma *w, const uint32_t *numbers, uint32_t key) {
    w->numbers = numbers;
    w->endpoint.regions[0].address = (uintptr_t)w->landing;
    w->endpoint.regions[0].key = key;
}

void rdma_free(SwitchMLRdma *w) {
    switchml_release(&w->switchml);
    free(w->connected);
    free(w->landing);
    free(w->taken - SWITCHML_BLOCKS);
    free(w->endpoint.pairs);
    free(w);
}
