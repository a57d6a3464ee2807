/* What both halves of a reliable connection share, and the interface that has the connections. */
#include "inside.h"

#define NOTIFICATION_BYTES 16 /* reserved, of a notification */
#define WIRE_BYTES 66         /* of Ethernet, IPv4 and UDP around a datagram, preamble, FCS and gap included */

/* A packet's number, counted from the first one on, that has this PSN and is nearest to one that is known. */
int64_t rc_number(uint32_t psn, uint32_t first, int64_t near) {
    int64_t ahead = (psn - first - (uint32_t)near) & NUMBERS;
    return near + (ahead > NUMBERS / 2 ? ahead - NUMBERS - 1 : ahead);
}

/* Close a packet that ends there; its length. */
int32_t rc_seal(const RoceReliable *q, uint8_t *packet, uint8_t *end) {
    int32_t length = end + ROCE_ICRC_BYTES - packet;
    uint32_t icrc = roce_icrc(q->source, q->destination, OWN_IDENTIFICATION, q->source_port, ROCE_PORT, packet, length);
    memcpy(end, &icrc, sizeof icrc);
    return length;
}

static int32_t notification(const RoceReliable *q, uint8_t *packet) {
    *(RoceBth *)packet = (RoceBth){
        .opcode = CONGESTION_NOTIFICATION, .partition = big_short(PARTITION), .queue_pair = big(q->remote | CONGESTED)};
    memset(packet + sizeof(RoceBth), 0, NOTIFICATION_BYTES);
    return rc_seal(q, packet, packet + sizeof(RoceBth) + NOTIFICATION_BYTES);
}

RoceAdapter *adapter_new(int32_t pairs, uint32_t first_pair, const RcSettings *settings) {
    RoceAdapter *a = calloc(1, sizeof *a);
    *a = (RoceAdapter){.settings = *settings, .pairs = calloc(pairs, sizeof *a->pairs), .pairs_count = pairs, .first_pair = first_pair};
    for (int32_t i = 0; i < pairs; i++) {
        RoceReliable *q = &a->pairs[i];
        *q = (RoceReliable){.own = first_pair + i, .ended = RC_REFUSED, .deadline = NEVER_DUE, .answer = -1};
        q->outgoing = malloc(RC_BUFFER);
        q->incoming = malloc(RC_BUFFER);
        if (settings->selective)
            q->held = malloc((size_t)RC_WINDOW * RC_PACKET);
    }
    return a;
}

void adapter_free(RoceAdapter *a) {
    for (int32_t i = 0; i < a->pairs_count; i++) {
        free(a->pairs[i].outgoing);
        free(a->pairs[i].incoming);
        free(a->pairs[i].held);
    }
    free(a->pairs);
    free(a);
}

/* The other end of a pair is known: it may send, and receive. */
void adapter_connect(
    RoceAdapter *a, int32_t pair, uint32_t source, uint32_t destination, uint16_t source_port, uint16_t remote_port,
    uint32_t remote, uint32_t first_psn, uint32_t expected_psn, double now) {
    RoceReliable *q = &a->pairs[pair];
    q->source = source;
    q->destination = destination;
    q->source_port = source_port;
    q->remote_port = remote_port;
    q->remote = remote;
    q->first_psn = first_psn;
    q->expected_psn = expected_psn;
    q->notified_at = -NEVER_DUE;
    q->ended = RC_OPEN;
    dcqcn_init(&q->rate, &a->settings, now);
}

/* Take in a datagram of an IPv4 packet with this identification. `marked`: a queue on its way was deep. */
void adapter_received(RoceAdapter *a, const uint8_t *packet, uint32_t length, uint16_t identification, bool marked, double now) {
    const RoceBth *bth = (const RoceBth *)packet;
    if (length < sizeof *bth + ROCE_ICRC_BYTES || length > RC_PACKET || length % 4 || bth->flags & 0x0f ||
        (big_short(bth->partition) & WHOLE) != WHOLE) {
        a->dropped.malformed++;
        return;
    }
    uint32_t pair = (big(bth->queue_pair) & NUMBERS) - a->first_pair;
    if (pair >= (uint32_t)a->pairs_count || a->pairs[pair].ended) {
        a->dropped.queue_pair++;
        return;
    }
    RoceReliable *q = &a->pairs[pair];
    if (!roce_whole(q->destination, q->source, identification, q->remote_port, ROCE_PORT, packet, length)) {
        a->dropped.icrc++;
        return;
    }
    q->counters.marked += marked;
    if (marked && a->settings.dcqcn && now >= q->notified_at + a->settings.unit) {
        q->notified_at = now;
        q->notify = true;
    }
    if (bth->opcode == CONGESTION_NOTIFICATION) {
        q->counters.notified++;
        if (a->settings.dcqcn)
            dcqcn_notified(&q->rate, &a->settings, now);
    } else if (bth->opcode == RC_ACKNOWLEDGE) {
        int32_t bytes = length - sizeof *bth - ROCE_ICRC_BYTES;
        if (bytes != 4 && bytes != 4 + RC_BITS) {
            a->dropped.malformed++;
            return;
        }
        const uint8_t *syndrome = packet + sizeof *bth;
        requester_acknowledged(q, &a->settings, big(bth->psn) & NUMBERS, *syndrome, bytes > 4 ? syndrome + 4 : NULL, now);
    } else {
        responder_received(q, a, packet, length);
    }
}

/* The next packet that may leave: what tells of others first, then each pair in turn. */
RoceLeaving adapter_next(RoceAdapter *a, uint8_t *packet, double now) {
    for (int32_t i = 0; i < a->pairs_count; i++) {
        RoceReliable *q = &a->pairs[i];
        if (q->notify) {
            q->notify = false;
            return (RoceLeaving){i, notification(q, packet), true};
        }
        if (q->answer >= 0)
            return (RoceLeaving){i, responder_answer(q, packet), true};
    }
    for (int32_t i = 0; i < a->pairs_count; i++) {
        int32_t pair = (a->turn + i) % a->pairs_count;
        RoceReliable *q = &a->pairs[pair];
        int64_t number = requester_leaving(q, &a->settings, now);
        if (number < 0)
            continue;
        a->turn = (pair + 1) % a->pairs_count;
        int32_t length = requester_packet(q, &a->settings, number, packet, now);
        if (a->settings.dcqcn)
            dcqcn_sent(&q->rate, &a->settings, length + WIRE_BYTES, now);
        return (RoceLeaving){pair, length, false};
    }
    return (RoceLeaving){0};
}

/* Timers that have run out. */
void adapter_expired(RoceAdapter *a, double now) {
    for (int32_t i = 0; i < a->pairs_count; i++)
        requester_expired(&a->pairs[i], &a->settings, now);
}

/* When a packet may leave, or a timer runs out. */
double adapter_due(const RoceAdapter *a, double now) {
    double due = NEVER_DUE;
    for (int32_t i = 0; i < a->pairs_count; i++) {
        const RoceReliable *q = &a->pairs[i];
        due = fmin(due, q->notify || q->answer >= 0 ? now : requester_due(q, &a->settings, now));
    }
    return due;
}

/* So many bytes that have come as whole messages, at most; how many. */
int64_t rc_take(RoceReliable *q, uint8_t *into, int64_t most) {
    int64_t bytes = q->came - q->taken < most ? q->came - q->taken : most;
    ring_get(q->incoming, q->taken, into, bytes);
    q->taken += bytes;
    return bytes;
}
