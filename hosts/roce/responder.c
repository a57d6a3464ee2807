/* The responder of a reliable connection: takes packets in their order, and says which have come (sections 9.7.4 and 9.7.5). */
#include "inside.h"

#define WAIT_CODE 14 /* 1.28 ms, that the other end waits where there is no room (table 47) */

/* What weighs more: a packet that cannot be taken than one that is missing, and both than what has come. */
static int32_t weight(int32_t syndrome) { return syndrome == NEGATIVE_SEQUENCE ? NOT_READY : syndrome; }

static void answer(RoceReliable *q, int32_t syndrome) {
    if (q->answer < 0 || weight(syndrome) > weight(q->answer))
        q->answer = syndrome;
}

/* An acknowledgment of what has come, or of what has not; its length. Where packets are told apart, one about a missing packet has a
   bit for each of those behind it, whether it has come (after IRN's selective acknowledgments, Mittal et al., SIGCOMM '18). */
int32_t responder_answer(RoceReliable *q, uint8_t *packet) {
    bool positive = q->answer >> 5 == POSITIVE >> 5;
    uint32_t psn = q->expected_psn + (uint32_t)q->expected - positive;
    *(RoceBth *)packet = (RoceBth){
        .opcode = RC_ACKNOWLEDGE, .partition = big_short(PARTITION), .queue_pair = big(q->remote), .psn = big(psn & NUMBERS)};
    uint8_t *end = packet + sizeof(RoceBth);
    *(uint32_t *)end = big((uint32_t)q->answer << 24 | (q->whole & NUMBERS));
    end += 4;
    if (q->held && q->answer == NEGATIVE_SEQUENCE) {
        memset(end, 0, RC_BITS);
        for (int i = 1; i < RC_WINDOW; i++)
            if (q->held_lengths[(q->expected + i) % RC_WINDOW])
                end[i / 8] |= 1 << i % 8;
        end += RC_BITS;
    }
    q->counters.acknowledgments++;
    q->answer = -1;
    return rc_seal(q, packet, end);
}

/* Take in the packet that is expected; what it is answered with where it is not taken, else -1. */
static int32_t take(RoceReliable *q, RoceAdapter *a, const uint8_t *packet, uint32_t length) {
    const RoceBth *bth = (const RoceBth *)packet;
    int32_t kind = bth->opcode >= RC_WRITE_FIRST ? RC_WRITE : RC_SEND;
    int part = bth->opcode - (kind == RC_WRITE ? RC_WRITE_FIRST : RC_SEND_FIRST);
    bool first = part == RC_SEND_FIRST || part >= RC_SEND_ONLY, last = part >= RC_SEND_LAST;
    bool immediate = part == RC_SEND_LAST_IMMEDIATE || part == RC_SEND_ONLY_IMMEDIATE;
    uint32_t pad = (bth->flags & PAD) >> 4, reth_bytes = first && kind == RC_WRITE ? sizeof(RoceReth) : 0;
    uint32_t headers = sizeof *bth + reth_bytes + 4 * immediate + ROCE_ICRC_BYTES;
    if (bth->opcode > RC_WRITE_ONLY_IMMEDIATE || length < headers + pad || first == q->under_way || (!first && kind != q->kind))
        return NEGATIVE_REQUEST;
    int64_t payload = length - headers - pad;
    const uint8_t *behind = packet + sizeof *bth;
    if (last ? payload > a->settings.payload : payload != a->settings.payload || pad)
        return NEGATIVE_REQUEST;
    if (first) {
        q->kind = kind;
        q->bytes = 0;
        if (kind == RC_WRITE) {
            RoceReth reth;
            memcpy(&reth, behind, sizeof reth);
            q->left = big(reth.length);
            q->at = q->left ? roce_place(
                a->regions, a->regions_count, &a->dropped, __builtin_bswap64(reth.address), big(reth.key), q->left) : NULL;
            if (q->left && !q->at)
                return NEGATIVE_ACCESS;
        } else if (RC_BUFFER - (q->written - q->taken) < (last ? payload : RC_MESSAGE)) {
            return NOT_READY | WAIT_CODE;
        }
    }
    if (kind == RC_WRITE ? payload > q->left || (last && payload != q->left) : q->bytes + payload > RC_MESSAGE)
        return NEGATIVE_REQUEST;
    behind += reth_bytes + 4 * immediate;
    if (kind == RC_SEND) {
        ring_put(q->incoming, q->written, behind, payload);
        q->written += payload;
    } else if (payload) {
        memcpy(q->at, behind, payload);
        q->at += payload;
        q->left -= payload;
    }
    q->bytes += payload;
    q->under_way = !last;
    q->expected++;
    if (last) {
        q->came = q->written;
        q->whole++;
        q->counters.messages_received += kind == RC_SEND || immediate;
    }
    return -1;
}

/* Take in a packet that is expected. False where it is refused. */
static bool taken(RoceReliable *q, RoceAdapter *a, const uint8_t *packet, uint32_t length) {
    int32_t refusal = take(q, a, packet, length);
    if (refusal < 0) {
        q->refused = false;
        if (big(((const RoceBth *)packet)->psn) & ASKS)
            answer(q, POSITIVE);
        return true;
    }
    if (refusal == NEGATIVE_REQUEST)
        a->dropped.malformed++;
    answer(q, refusal);
    return false;
}

/* Take in a packet of a request. One that comes twice is acknowledged again. One that comes early is told of, once. */
void responder_received(RoceReliable *q, RoceAdapter *a, const uint8_t *packet, uint32_t length) {
    int64_t number = rc_number(big(((const RoceBth *)packet)->psn) & NUMBERS, q->expected_psn, q->expected);
    if (number < q->expected) {
        answer(q, POSITIVE);
    } else if (number == q->expected) {
        if (!taken(q, a, packet, length))
            return;
        for (int64_t n = q->expected; q->held && q->held_lengths[n % RC_WINDOW]; n = q->expected) {
            uint32_t its = q->held_lengths[n % RC_WINDOW];
            q->held_lengths[n % RC_WINDOW] = 0;
            if (!taken(q, a, q->held + n % RC_WINDOW * RC_PACKET, its))
                return;
            answer(q, POSITIVE);
        }
    } else {
        a->dropped.sequence++;
        if (q->held) {
            if (number >= q->expected + RC_WINDOW)
                return;
            memcpy(q->held + number % RC_WINDOW * RC_PACKET, packet, length);
            q->held_lengths[number % RC_WINDOW] = length;
            answer(q, NEGATIVE_SEQUENCE);
        } else if (!q->refused) {
            q->refused = true;
            answer(q, NEGATIVE_SEQUENCE);
        }
    }
}
