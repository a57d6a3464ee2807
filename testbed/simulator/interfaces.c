/* A host's interface for RDMA: it cuts what the host writes into packets, and puts together what comes. What a packet may follow, and
   what a host makes of messages, is the real hosts' (hosts/roce/endpoint.c, hosts/switchml/rdma.c). */
#include "inside.h"

/* The fields of an immediate (rdma.c). */
enum immediate { AGAIN = 31, TURN = 28, EXPONENT = 21 }; /* bits */
#define TURNS 7
#define SEVEN_BITS 0x7f
#define ALL_FOUR 0x204081 /* times an exponent: four of them, alike */

static int64_t bytes_of_vectors(const SwitchMLRdma *r) { return r->switchml.stream.packet_bytes - sizeof(SwitchmlHeader); }

/* A host writes a message. */
void write_out(World *w, Host *h, const uint8_t *row, const Send *send, double now) {
    RoceWork work;
    Packet made = {0};
    Written *its = written(&made);
    SwitchmlHeader *header = &its->status.header;
    memcpy(&work, row, sizeof work);
    bool has_vectors = work.bytes == bytes_of_vectors(h->rdma);
    int32_t packets = has_vectors ? h->rdma->message : 1;
    if (!has_vectors)
        memcpy(&its->status, row + sizeof work, sizeof its->status);
    for (int32_t i = 0; i < packets; i++) {
        bool last = i + 1 == packets;
        if (has_vectors)
            *header = (SwitchmlHeader){
                .job = h->job, .kind = SWITCHML_UPDATE, .version = work.key >> 16, .slot = big_short((work.key & 0xffff) + i),
                .mark = last ? work.immediate >> AGAIN : 0, .epoch = big(work.address >> 32), .chunk = big(work.address + i),
            };
        if (header->kind == SWITCHML_UPDATE)
            header->exponent = last ? work.immediate >> EXPONENT & SEVEN_BITS : 0;
        its->psn = roce_next(&h->rdma->endpoint.pairs[work.pair]);
        made.length = has_vectors ? 0 : sizeof its->status;
        made.lacks = has_vectors ? framing(i, packets) : (int32_t)(sizeof its->status - work.bytes);
        leave(w, h, &made, send, now);
    }
}

/* Packets have come. The host takes in the messages that are whole. */
void write_in(World *w, Host *h, const Datagrams *come, double now) {
    SwitchMLRdma *r = h->rdma;
    int64_t bytes_of_pair = rdma_landing_bytes(r) / r->endpoint.pairs_count;
    for (int64_t i = 0; i < come->count; i++) {
        const Written *its = (const Written *)datagram(come, i);
        const SwitchmlHeader *header = &its->status.header;
        bool has_vector = come->lengths[i] == WHOLE;
        int32_t slot = big_short(header->slot), place = slot % r->message;
        uint32_t pair = slot / r->message;
        bool last = !has_vector || place + 1 == r->message;
        if (!roce_follows(&r->endpoint.pairs[pair], !has_vector || place == 0, its->psn))
            continue;
        roce_taken(&r->endpoint.pairs[pair], last, its->psn);
        if (!last)
            continue;
        RoceWork work = {.pair = pair, .bytes = has_vector ? bytes_of_vectors(r) : (int64_t)sizeof its->status};
        work.immediate = (uint32_t)(header->mark & 1) << AGAIN | header->exponent * ALL_FOUR |
                         (big(header->chunk) / w->jobs[h->job].slots & TURNS) << TURN;
        if (!has_vector)
            memcpy(r->landing + (pair + 1) * bytes_of_pair - sizeof its->status, &its->status, sizeof its->status);
        uint32_t length = sizeof work;
        const Datagrams one = {(uint8_t *)&work, 0, 1, &length};
        rdma_received(r, &one, now);
    }
}
