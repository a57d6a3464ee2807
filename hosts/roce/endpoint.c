/* Writes to another end's memory, cut into packets, and the other end's writes to this one's (InfiniBand Architecture Specification,
   chapter 9: operations of unreliable connections). */
#include "../stream/inside.h"
#include "inside.h"

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }

static void put_icrc(const RoceEndpoint *e, uint8_t *packet, int32_t length) {
    uint32_t icrc = roce_icrc(e->source, e->destination, OWN_IDENTIFICATION, e->source_port, e->port, packet, length);
    memcpy(packet + length - ROCE_ICRC_BYTES, &icrc, sizeof icrc); /* lowest byte first */
}

/* The number of the next packet sent. */
uint32_t roce_next(RoceQueuePair *q) {
    uint32_t psn = q->psn;
    q->psn = (psn + 1) & NUMBERS;
    return psn;
}

/* Write so many bytes, a multiple of four, to the other end's memory: a message in rows of `packets` from `row` on, whose lengths are
   noted. Returns how many rows. */
int roce_write(
    RoceEndpoint *e, int32_t pair, const uint8_t *payload, int32_t bytes, uint64_t address, uint32_t key, uint32_t immediate,
    const Datagrams *packets, int64_t row, uint32_t *lengths) {
    RoceQueuePair *q = &e->pairs[pair];
    int count = 0;
    for (int32_t done = 0; done < bytes; count++) {
        int32_t here = least(bytes - done, e->payload);
        bool first = done == 0, last = done + here == bytes;
        uint8_t *packet = datagram(packets, row + count), *end = packet;
        *(RoceBth *)end = (RoceBth){
            .opcode = first ? last ? UC_WRITE_ONLY_IMMEDIATE : UC_WRITE_FIRST : last ? UC_WRITE_LAST_IMMEDIATE : UC_WRITE_MIDDLE,
            .partition = big_short(PARTITION), .queue_pair = big(q->remote), .psn = big(roce_next(q)),
        };
        end += sizeof(RoceBth);
        if (first) {
            const RoceReth reth = {__builtin_bswap64(address), big(key), big(bytes)};
            memcpy(end, &reth, sizeof reth);
            end += sizeof reth;
        }
        if (last) {
            *(uint32_t *)end = big(immediate);
            end += sizeof immediate;
        }
        memcpy(end, payload + done, here);
        lengths[row + count] = end + here + ROCE_ICRC_BYTES - packet;
        put_icrc(e, packet, lengths[row + count]);
        done += here;
    }
    return count;
}

/* Where a message may go, or NULL. */
uint8_t *roce_place(const RoceRegion *regions, int32_t count, RoceDropped *dropped, uint64_t address, uint32_t key, uint64_t length) {
    for (int i = 0; i < count; i++) {
        const RoceRegion *r = &regions[i];
        if (r->key != key)
            continue;
        uint64_t offset = address - r->address, size = r->length;
        if (address >= r->address && offset <= size && length <= size - offset)
            return r->memory + offset;
        dropped->bounds++;
        return NULL;
    }
    dropped->key++;
    return NULL;
}

/* Whether a packet is one that may come now. What does not follow the packet before it costs the message. The next one may begin with
   any number that is ahead: paths may reorder packets here, and what is older is not to be written again (InfiniBand, whose paths do
   not, takes any). */
bool roce_follows(RoceQueuePair *q, bool first, uint32_t psn) {
    if ((first || q->under_way) && q->heard && ((psn - q->newest - 1) & NUMBERS) > NUMBERS / 2)
        return false; /* it is older */
    if (first || (q->under_way && psn == q->expected))
        return true;
    q->under_way = false;
    return false;
}

/* It has been taken in. */
void roce_taken(RoceQueuePair *q, bool last, uint32_t psn) {
    q->newest = psn;
    q->heard = true;
    q->expected = (psn + 1) & NUMBERS;
    q->under_way = !last;
}

/* Take in a datagram; whether it is the last packet of a message that has come whole. */
bool roce_received(RoceEndpoint *e, const uint8_t *packet, uint32_t length, RoceCompletion *complete) {
    const RoceBth *bth = (const RoceBth *)packet;
    if (length < sizeof *bth + ROCE_ICRC_BYTES || length % 4) {
        e->dropped.malformed++;
        return false;
    }
    bool first = bth->opcode == UC_WRITE_FIRST || bth->opcode == UC_WRITE_ONLY_IMMEDIATE;
    bool last = bth->opcode == UC_WRITE_LAST_IMMEDIATE || bth->opcode == UC_WRITE_ONLY_IMMEDIATE;
    uint32_t headers = sizeof *bth + first * sizeof(RoceReth) + last * sizeof(uint32_t) + ROCE_ICRC_BYTES;
    bool known = first || last || bth->opcode == UC_WRITE_MIDDLE;
    if (!known || length < headers || bth->flags & 0x3f || (big_short(bth->partition) & WHOLE) != WHOLE) {
        e->dropped.malformed++;
        return false;
    }
    if (!roce_whole(e->destination, e->source, OWN_IDENTIFICATION, e->port, e->source_port, packet, length)) {
        e->dropped.icrc++;
        return false;
    }
    uint32_t pair = (big(bth->queue_pair) & NUMBERS) - e->first_pair, psn = big(bth->psn) & NUMBERS;
    if (pair >= (uint32_t)e->pairs_count) {
        e->dropped.queue_pair++;
        return false;
    }
    RoceQueuePair *q = &e->pairs[pair];
    int64_t payload = length - headers;
    const uint8_t *behind = packet + sizeof *bth;
    if (!roce_follows(q, first, psn)) {
        e->dropped.sequence++;
        return false;
    }
    if (first) {
        RoceReth reth;
        memcpy(&reth, behind, sizeof reth);
        behind += sizeof reth;
        q->left = q->bytes = big(reth.length);
        q->at = roce_place(e->regions, e->regions_count, &e->dropped, __builtin_bswap64(reth.address), big(reth.key), q->bytes);
        q->under_way = q->at != NULL;
        if (!q->under_way)
            return false;
    }
    if (last ? payload != q->left : payload != e->payload || payload >= q->left) {
        e->dropped.malformed++;
        q->under_way = false;
        return false;
    }
    uint32_t immediate = last ? big(*(const uint32_t *)behind) : 0;
    memcpy(q->at, behind + last * sizeof immediate, payload);
    q->at += payload;
    q->left -= payload;
    roce_taken(q, last, psn);
    *complete = (RoceCompletion){pair, immediate, q->at - q->bytes, q->bytes};
    return last;
}
