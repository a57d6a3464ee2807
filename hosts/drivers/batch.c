/* Datagrams of a UDP socket, many a system call: sendmmsg(2) and recvmmsg(2). What goes wrong is returned as -errno. */
#include "batch.h"

#include <errno.h>
#include <linux/pkt_sched.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

struct Batch {
    int descriptor, bytes, peers_count; /* bytes of the longest datagram */
    bool connected;                     /* to the only peer */
    Datagrams sender, receiver;
    struct sockaddr_in *peers, *sources;
    struct mmsghdr *outgoing, *incoming;
    struct iovec *from, *into;
    union { /* tells the kernel how long the datagrams of a message are */
        struct cmsghdr header;
        char octets[CMSG_SPACE(sizeof(uint16_t))];
    } cut;
};

Batch *batch_new(int32_t descriptor, const Datagrams *sender, const Datagrams *receiver, int32_t bytes) {
    Batch *b = calloc(1, sizeof *b);
    *b = (Batch){.descriptor = descriptor, .bytes = bytes, .sender = *sender, .receiver = *receiver};
    b->outgoing = calloc(sender->count, sizeof *b->outgoing);
    b->from = calloc(sender->count, sizeof *b->from);
    b->incoming = calloc(receiver->count, sizeof *b->incoming);
    b->into = calloc(receiver->count, sizeof *b->into);
    b->sources = calloc(receiver->count, sizeof *b->sources);
    for (int64_t i = 0; i < receiver->count; i++) {
        b->into[i] = (struct iovec){receiver->first + i * receiver->stride, bytes};
        b->incoming[i].msg_hdr = (struct msghdr){.msg_iov = &b->into[i], .msg_iovlen = 1};
    }
    return b;
}

/* Four bytes of an address each. `connected`: so is the socket, to the only one. */
void batch_peers(Batch *b, const uint8_t *addresses, const uint16_t *ports, int32_t count, bool connected) {
    b->peers_count = count;
    b->connected = connected;
    b->peers = calloc(count, sizeof *b->peers);
    for (int32_t i = 0; i < count; i++) {
        b->peers[i].sin_family = AF_INET;
        b->peers[i].sin_port = htons(ports[i]);
        memcpy(&b->peers[i].sin_addr, addresses + 4 * i, 4);
    }
}

void batch_free(Batch *b) {
    void *held[] = {b->peers, b->sources, b->outgoing, b->incoming, b->from, b->into, b};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        free(held[i]);
}

/* Send these rows to a peer, up to `together` as one message that the kernel cuts, where all have one `length`; 0: each has its own.
   How many have left. -ERANGE: there is no such row. */
int64_t batch_send(Batch *b, const int64_t *rows, int64_t count, int32_t length, int32_t together, int32_t peer) {
    int messages = 0;
    count = count < b->sender.count ? count : b->sender.count;
    together = length ? together : 1;
    for (int64_t i = 0; i < count; i++) {
        if (rows[i] < 0 || rows[i] >= b->sender.count)
            return -ERANGE;
        b->from[i] = (struct iovec){b->sender.first + rows[i] * b->sender.stride, length ? length : b->sender.lengths[rows[i]]};
        struct msghdr *message = &b->outgoing[i / together].msg_hdr;
        if (i % together == 0) {
            *message = (struct msghdr){.msg_iov = &b->from[i]};
            if (!b->connected) {
                message->msg_name = &b->peers[peer];
                message->msg_namelen = sizeof b->peers[peer];
            }
            messages++;
        }
        if (++message->msg_iovlen == 2) {
            message->msg_control = &b->cut;
            message->msg_controllen = sizeof b->cut;
        }
    }
    b->cut.header = (struct cmsghdr){.cmsg_level = IPPROTO_UDP, .cmsg_type = UDP_SEGMENT, .cmsg_len = CMSG_LEN(sizeof(uint16_t))};
    memcpy(CMSG_DATA(&b->cut.header), &(uint16_t){length}, sizeof(uint16_t));
    int sent = sendmmsg(b->descriptor, b->outgoing, messages, 0);
    if (sent < 0)
        return -errno;
    int64_t left = (int64_t)sent * together;
    return left < count ? left : count;
}

/* Let what is sent from now on leave this host before what is not urgent, or no longer. */
void batch_set_urgent(Batch *b, bool urgent) {
    int priority = urgent ? TC_PRIO_INTERACTIVE : 0;
    setsockopt(b->descriptor, SOL_SOCKET, SO_PRIORITY, &priority, sizeof priority);
}

static bool known(const Batch *b, const struct sockaddr_in *source) {
    for (int i = 0; i < b->peers_count; i++)
        if (source->sin_port == b->peers[i].sin_port && source->sin_addr.s_addr == b->peers[i].sin_addr.s_addr)
            return true;
    return false;
}

/* Put all datagrams of peers that are there into the receiver's first rows; how many. One that is longer than any packet has length
   0. */
int64_t batch_receive(Batch *b, uint32_t *lengths) {
    for (int64_t i = 0; i < b->receiver.count && !b->connected; i++) { /* else the kernel looks at the source */
        b->incoming[i].msg_hdr.msg_name = &b->sources[i];
        b->incoming[i].msg_hdr.msg_namelen = sizeof b->sources[i];
    }
    int come = recvmmsg(b->descriptor, b->incoming, b->receiver.count, MSG_DONTWAIT, NULL), n = 0;
    if (come < 0)
        return -errno;
    for (int i = 0; i < come; i++) {
        if (!b->connected && !known(b, &b->sources[i]))
            continue;
        lengths[n] = b->incoming[i].msg_hdr.msg_flags & MSG_TRUNC ? 0 : b->incoming[i].msg_len;
        if (n < i)
            memcpy(b->into[n].iov_base, b->into[i].iov_base, b->bytes);
        n++;
    }
    return n;
}

/* --- a stream over the socket, as long as nothing happens but packets and timers: the loop of hosts/drivers/stream.py in one call */

static double monotonic(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

static struct timespec as_timespec(double seconds) {
    double whole = floor(fmax(seconds, 0));
    return (struct timespec){.tv_sec = whole, .tv_nsec = 1e9 * (fmax(seconds, 0) - whole)};
}

/* Send what is in the outbox; false if the kernel does not take all of it. The rest stays there. */
static bool send_all(Batch *b, Outbox *o, int32_t together) {
    bool urgent = false;
    int64_t i = 0;
    for (; i < o->count; i++) {
        Send *send = &o->sends[i];
        if (send->urgent != urgent)
            batch_set_urgent(b, urgent = send->urgent);
        while (send->count) {
            int64_t sent = batch_send(b, o->leaving + send->first, send->count, send->length, together, send->peer);
            if (sent == -EINTR || sent == -ECONNREFUSED) /* the latter is about an earlier datagram */
                continue;
            if (sent < 0)
                goto end;
            send->first += sent;
            send->count -= sent;
        }
    }
end:
    if (urgent)
        batch_set_urgent(b, false);
    o->count -= i;
    memmove(o->sends, o->sends + i, o->count * sizeof *o->sends);
    if (!o->count)
        o->rows = 0;
    return !o->count;
}

/* Let the stream go on until it is so late, the descriptor `interrupt` is readable, or there is something for others to do: a sum is
   over, packets do not leave, a signal has come. Returns an enum driven, or -errno. */
int64_t batch_drive(Batch *b, Stream *s, uint32_t *lengths, int32_t together, double until, int32_t interrupt) {
    while (send_all(b, &s->outbox, together) && !s->finished_count && !s->announced_count) {
        double now = monotonic();
        double due = stream_expired(s, now).deadline;
        if (now >= until)
            break;
        if (s->outbox.count)
            continue;
        struct pollfd ends[] = {{.fd = b->descriptor, .events = POLLIN}, {.fd = interrupt, .events = POLLIN}};
        struct timespec left = as_timespec(fmin(due, until) - now);
        if (ppoll(ends, 2, &left, NULL) < 0)
            return errno == EINTR ? DRIVEN : -errno;
        if (ends[1].revents)
            return DRIVE_INTERRUPTED;
        if (!ends[0].revents)
            continue;
        left = as_timespec(stream_nap(s));
        if (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, NULL) == EINTR)
            break;
        int64_t come = batch_receive(b, lengths);
        if (come < 0 && come != -EAGAIN && come != -EINTR && come != -ECONNREFUSED)
            return come;
        const Datagrams packets = {b->receiver.first, b->receiver.stride, come > 0 ? come : 0, lengths};
        s->scheme->received(s, &packets, monotonic());
    }
    return DRIVEN;
}
