/* The requester of a reliable connection: messages in packets, which are acknowledged, and sent again (sections 9.7.5 and 9.7.8). */
#include "inside.h"

#define ASKING 32 /* packets of which one asks for an acknowledgment, as does the last one that there is to send */

static const double NOT_READY_MS[32] = {
    655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28, 1.92, 2.56, 3.84, 5.12, 7.68, 10.24,
    15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52}; /* table 47 */

/* Bytes that may be posted as one message now. */
int64_t rc_room(const RoceReliable *q) {
    int64_t room = RC_BUFFER - (q->posted_bytes - q->released_bytes);
    return q->ended || q->requests_count == RC_REQUESTS ? 0 : room < RC_MESSAGE ? room : RC_MESSAGE;
}

/* Bytes that were posted and not sent. */
int64_t rc_unsent(const RoceReliable *q) { return q->posted_bytes - q->sent_bytes; }

/* Begin a message of at most `rc_room` bytes: a send, or a write to the other end's memory. False where there is no room. */
bool rc_post(
    RoceReliable *q, const RcSettings *s, int32_t kind, const uint8_t *payload, int64_t bytes, uint64_t address, uint32_t key,
    bool with_immediate, uint32_t immediate) {
    if (bytes < 0 || bytes > rc_room(q) || q->ended || q->requests_count == RC_REQUESTS)
        return false;
    int64_t packets = bytes > s->payload ? (bytes + s->payload - 1) / s->payload : 1;
    q->requests[(q->requests_first + q->requests_count++) % RC_REQUESTS] = (RoceRequest){
        .first = q->posted, .packets = packets, .begin = q->posted_bytes, .bytes = bytes, .address = address, .key = key,
        .immediate = immediate, .kind = kind, .with_immediate = with_immediate};
    q->posted += packets;
    ring_put(q->outgoing, q->posted_bytes, payload, bytes);
    q->posted_bytes += bytes;
    return true;
}

/* The packet that may leave now, -1: none. */
int64_t requester_leaving(const RoceReliable *q, const RcSettings *s, double now) {
    if (q->ended || now < q->ready_at || now < q->rate.free_at)
        return -1;
    if (q->probes && q->next > q->acknowledged && !(s->selective && q->states[q->acknowledged % RC_WINDOW] == RC_LOST))
        return -1;
    for (int64_t n = q->acknowledged; s->selective && n < q->next; n++)
        if (q->states[n % RC_WINDOW] == RC_LOST)
            return n;
    return q->next < q->posted && q->next < q->acknowledged + s->window ? q->next : -1;
}

static const RoceRequest *request_of(const RoceReliable *q, int64_t number) {
    int64_t i = q->requests_first;
    while (number >= q->requests[i % RC_REQUESTS].first + q->requests[i % RC_REQUESTS].packets)
        i++;
    return &q->requests[i % RC_REQUESTS];
}

/* Make a packet; its length. */
int32_t requester_packet(RoceReliable *q, const RcSettings *s, int64_t number, uint8_t *packet, double now) {
    const RoceRequest *r = request_of(q, number);
    int64_t place = number - r->first, begin = place * s->payload, left = r->bytes - begin;
    int32_t here = left < s->payload ? left : s->payload, pad = -here & 3;
    bool first = !place, last = place == r->packets - 1, immediate = last && r->with_immediate;
    int opcode = (r->kind == RC_WRITE ? RC_WRITE_FIRST : RC_SEND_FIRST) + immediate;
    opcode += first && last ? RC_SEND_ONLY : last ? RC_SEND_LAST : !first;
    bool again = number < q->farthest, asks = q->probes || number == q->posted - 1 || number % ASKING == ASKING - 1;
    *(RoceBth *)packet = (RoceBth){
        .opcode = opcode, .flags = pad << 4, .partition = big_short(PARTITION), .queue_pair = big(q->remote),
        .psn = big(((q->first_psn + (uint32_t)number) & NUMBERS) | (asks ? ASKS : 0))};
    uint8_t *end = packet + sizeof(RoceBth);
    if (first && r->kind == RC_WRITE) {
        const RoceReth reth = {__builtin_bswap64(r->address), big(r->key), big(r->bytes)};
        memcpy(end, &reth, sizeof reth);
        end += sizeof reth;
    }
    if (immediate) {
        *(uint32_t *)end = big(r->immediate);
        end += sizeof r->immediate;
    }
    ring_get(q->outgoing, r->begin + begin, end, here);
    end += here;
    memset(end, 0, pad);
    end += pad;

    q->counters.packets++;
    q->counters.bytes += here;
    q->counters.again += again;
    q->states[number % RC_WINDOW] = again ? RC_RESENT : RC_UNDER_WAY;
    if (number == q->next)
        q->next++;
    if (q->next > q->farthest) {
        q->farthest = q->next;
        q->sent_bytes = r->begin + begin + here;
    }
    if (q->deadline == NEVER_DUE)
        q->deadline = now + s->timeout;
    return rc_seal(q, packet, end);
}

/* Everything before this packet has come. */
static void settle(RoceReliable *q, int64_t number) {
    q->acknowledged = number;
    if (q->next < number)
        q->next = number;
    while (q->requests_count) {
        const RoceRequest *r = &q->requests[q->requests_first % RC_REQUESTS];
        if (r->first + r->packets > number)
            break;
        q->released_bytes += r->bytes;
        q->counters.messages_sent++;
        q->requests_first++;
        q->requests_count--;
    }
}

/* Of what is not known to have come, send all again from the first one on. */
static void go_back(RoceReliable *q) { q->next = q->acknowledged; }

/* Some have come behind one that is missing: those before the last of them are lost, unless they were sent again since. The missing
   one may have come, and not have been taken. */
static void arrived_early(RoceReliable *q, const uint8_t *came) {
    bool behind = false;
    if (q->states[q->acknowledged % RC_WINDOW] == RC_ARRIVED)
        q->states[q->acknowledged % RC_WINDOW] = RC_LOST;
    for (int i = RC_WINDOW - 1; i >= 0; i--) {
        uint8_t *state = &q->states[(q->acknowledged + i) % RC_WINDOW];
        if (q->acknowledged + i >= q->farthest)
            continue;
        if (came[i / 8] & 1 << i % 8) {
            behind = true;
            *state = RC_ARRIVED;
        } else if (behind && *state == RC_UNDER_WAY) {
            *state = RC_LOST;
        }
    }
}

/* An acknowledgment has come: everything up to a packet, or before it. `came` has a bit for each from there on, or is NULL. */
void requester_acknowledged(RoceReliable *q, const RcSettings *s, uint32_t psn, uint8_t syndrome, const uint8_t *came, double now) {
    bool positive = syndrome >> 5 == POSITIVE >> 5;
    int64_t number = rc_number(psn, q->first_psn, q->acknowledged) + positive;
    if (number < q->acknowledged || number > q->farthest)
        return; /* it is older, or of what was never sent */
    if (number > q->acknowledged) {
        settle(q, number);
        q->tries = 0;
        q->probes = false;
        q->deadline = q->acknowledged < q->farthest ? now + s->timeout : NEVER_DUE;
    }
    if (syndrome >> 5 == NOT_READY >> 5) {
        if (number == q->farthest)
            return; /* what was never sent */
        q->tries = 0;
        q->probes = true; /* with one packet at a time whether it is ready */
        q->ready_at = now + NOT_READY_MS[syndrome & 0x1f] / 1000;
        q->deadline = q->ready_at + s->timeout;
        if (s->selective)
            q->states[number % RC_WINDOW] = RC_LOST;
        else
            go_back(q);
    } else if (syndrome == NEGATIVE_SEQUENCE) {
        if (!s->selective)
            go_back(q);
        else if (came)
            arrived_early(q, came);
    } else if (!positive) {
        q->ended = syndrome == NEGATIVE_ACCESS ? RC_ACCESS : RC_REFUSED;
    }
}

/* No acknowledgment has come in time. */
void requester_expired(RoceReliable *q, const RcSettings *s, double now) {
    if (q->ended || now < q->deadline)
        return;
    if (q->acknowledged == q->farthest) {
        q->deadline = NEVER_DUE;
        return;
    }
    q->counters.timeouts++;
    if (q->tries++ == s->retries) {
        q->ended = RC_RETRIES;
        return;
    }
    q->deadline = now + s->timeout;
    if (!s->selective) {
        go_back(q);
        return;
    }
    for (int64_t n = q->acknowledged; n < q->farthest; n++)
        if (n == q->acknowledged || q->states[n % RC_WINDOW] != RC_ARRIVED)
            q->states[n % RC_WINDOW] = RC_LOST;
}

/* When it may send, or gives up waiting. */
double requester_due(const RoceReliable *q, const RcSettings *s, double now) {
    if (q->ended)
        return NEVER_DUE;
    double free_at = fmax(q->ready_at, q->rate.free_at), due = q->deadline;
    return requester_leaving(q, s, fmax(now, free_at)) < 0 ? due : fmin(due, fmax(now, free_at));
}
