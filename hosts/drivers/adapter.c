/* A network interface for RDMA over sockets: what the host's program hands over becomes messages, what comes goes to it, and UDP
   carries the packets. The connection by which two ends met stays: over it an end says that it sends no more, and when it ends without
   that, the other end is gone. */
#include "adapter.h"

#include "../roce/wire.h"

#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <linux/pkt_sched.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define GOODBYE "!"
#define AT_ONCE 32      /* datagrams of a socket, before others have their turn */
#define CONTROL_BYTES 64
#define CONGESTION_EXPERIENCED 3 /* RFC 3168 */
#define LINGERS 10.0    /* seconds that ends wait for acknowledgments when all programs have left */

static double monotonic(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

static void shut(int32_t *descriptor) {
    if (*descriptor >= 0)
        close(*descriptor);
    *descriptor = -1;
}

static void shut_all(AdapterLink *l) {
    shut(&l->program);
    if (l->manager >= 0)
        shutdown(l->manager, SHUT_RDWR);
    l->manager = -1;
    shut(&l->sender);
    shut(&l->receiver);
}

static bool again(void) { return errno == EAGAIN || errno == EINTR; }

/* Post what the program has handed over. */
static void take(RoceAdapter *a, AdapterLink *l, RoceReliable *q) {
    static __thread uint8_t message[RC_MESSAGE];
    while (!l->program_ended && rc_unsent(q) < l->unsent && rc_room(q) == RC_MESSAGE) {
        ssize_t bytes = recv(l->program, message, sizeof message, MSG_DONTWAIT);
        if (bytes < 0 && again())
            return;
        l->program_ended = bytes <= 0;
        if (bytes > 0)
            rc_post(q, &a->settings, RC_SEND, message, bytes, 0, 0, false, 0);
    }
}

/* Give the program what has come. */
static void give(AdapterLink *l, RoceReliable *q) {
    if (l->closed)
        q->taken = q->came;
    while (q->taken < q->came) {
        int64_t at = q->taken % RC_BUFFER, bytes = q->came - q->taken;
        if (bytes > RC_BUFFER - at)
            bytes = RC_BUFFER - at;
        ssize_t gone = send(l->program, q->incoming + at, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (gone < 0 && again())
            return;
        q->taken = gone < 0 ? q->came : q->taken + gone; /* a program that has left wants nothing any more */
    }
}

/* What has come from the connection by which the ends met: that the other one sends no more, or is gone. */
static void hear(AdapterLink *l, RoceReliable *q) {
    uint8_t word;
    ssize_t bytes = recv(l->manager, &word, 1, MSG_DONTWAIT);
    if (bytes < 0 && again())
        return;
    if (bytes > 0) {
        l->other_ended = true;
        return;
    }
    l->other_gone = true;
    if (!q->ended && (!l->other_ended || q->acknowledged < q->posted))
        q->ended = RC_RETRIES;
}

/* The order in which two ends part. Whether this one has. */
static bool part(AdapterLink *l, RoceReliable *q) {
    bool all_arrived = q->acknowledged == q->posted;
    if (l->program_ended && all_arrived && !l->told)
        l->told = send(l->manager, GOODBYE, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 || !again();
    if (q->taken == q->came && (l->other_ended || q->ended)) {
        shutdown(l->program, q->ended ? SHUT_RDWR : SHUT_WR);
        if (l->told || q->ended)
            shut_all(l);
    }
    return l->program < 0;
}

static void receive(RoceAdapter *a, int32_t descriptor, double now) {
    static __thread uint8_t packets[AT_ONCE][RC_PACKET];
    uint8_t controls[AT_ONCE][CONTROL_BYTES];
    struct iovec into[AT_ONCE];
    struct mmsghdr messages[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++) {
        into[i] = (struct iovec){packets[i], RC_PACKET};
        messages[i].msg_hdr = (struct msghdr){
            .msg_iov = &into[i], .msg_iovlen = 1, .msg_control = controls[i], .msg_controllen = CONTROL_BYTES};
    }
    int come = recvmmsg(descriptor, messages, AT_ONCE, MSG_DONTWAIT, NULL);
    for (int i = 0; i < come; i++) {
        struct msghdr *header = &messages[i].msg_hdr;
        bool marked = false;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c))
            if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS)
                marked = (*(uint8_t *)CMSG_DATA(c) & 3) == CONGESTION_EXPERIENCED;
        adapter_received(a, packets[i], header->msg_flags & MSG_TRUNC ? 0 : messages[i].msg_len, OWN_IDENTIFICATION, marked, now);
    }
}

typedef struct {
    RoceLeaving leaving;
    uint8_t packet[RC_PACKET];
} Waiting;

/* Send what may leave, until a socket has no room; whether one has none. What it did not take is kept. */
static bool send_all(RoceAdapter *a, AdapterLink *links, Waiting *w) {
    for (;;) {
        if (!w->leaving.length)
            w->leaving = adapter_next(a, w->packet, monotonic());
        if (!w->leaving.length)
            return false;
        AdapterLink *l = &links[w->leaving.pair];
        const struct sockaddr_in to = {
            .sin_family = AF_INET, .sin_port = htons(ROCE_PORT), .sin_addr.s_addr = a->pairs[w->leaving.pair].destination};
        if (l->sender >= 0) {
            int priority = w->leaving.urgent ? TC_PRIO_INTERACTIVE : 0;
            if (w->leaving.urgent)
                setsockopt(l->sender, SOL_SOCKET, SO_PRIORITY, &priority, sizeof priority);
            ssize_t gone = sendto(l->sender, w->packet, w->leaving.length, MSG_DONTWAIT, (const struct sockaddr *)&to, sizeof to);
            bool full = gone < 0 && (again() || errno == ENOBUFS);
            if (w->leaving.urgent)
                setsockopt(l->sender, SOL_SOCKET, SO_PRIORITY, &(int){0}, sizeof(int));
            if (full)
                return true;
        }
        w->leaving.length = 0;
    }
}

/* Carry everything until all programs have left and what they handed over has arrived, or has not for a while. `wake` is readable when
   one has left. */
int32_t adapter_run(RoceAdapter *a, AdapterLink *links, int32_t wake) {
    int32_t count = a->pairs_count;
    struct pollfd *ends = calloc(4 * count + 1, sizeof *ends);
    Waiting *waiting = calloc(1, sizeof *waiting);
    double left_at = NAN;
    for (;;) {
        double now = monotonic();
        bool all_left = true, all_parted = true;
        adapter_expired(a, now);
        for (int32_t i = 0; i < count; i++) {
            if (links[i].program < 0)
                continue;
            take(a, &links[i], &a->pairs[i]);
            give(&links[i], &a->pairs[i]);
            if (part(&links[i], &a->pairs[i]))
                continue;
            all_left &= links[i].closed;
            all_parted &= links[i].told;
        }
        if (!all_left)
            left_at = NAN;
        else if (isnan(left_at))
            left_at = now;
        if (all_left && (all_parted || now > left_at + LINGERS))
            break;
        bool full = send_all(a, links, waiting);

        for (int32_t i = 0; i < count; i++) {
            AdapterLink *l = &links[i];
            RoceReliable *q = &a->pairs[i];
            bool room = !l->program_ended && rc_unsent(q) < l->unsent && rc_room(q) == RC_MESSAGE;
            ends[4 * i] = (struct pollfd){l->program, (room ? POLLIN : 0) | (q->taken < q->came ? POLLOUT : 0), 0};
            if (!ends[4 * i].events)
                ends[4 * i].fd = -1;
            ends[4 * i + 1] = (struct pollfd){l->other_gone ? -1 : l->manager, POLLIN, 0};
            ends[4 * i + 2] = (struct pollfd){l->receiver, POLLIN, 0};
            ends[4 * i + 3] = (struct pollfd){full && waiting->leaving.pair == i ? l->sender : -1, POLLOUT, 0};
        }
        ends[4 * count] = (struct pollfd){wake, POLLIN, 0};
        double due = adapter_due(a, now = monotonic()), seconds = fmin(full && due <= now ? 1 : fmax(0, due - now), 1);
        struct timespec most = {.tv_sec = seconds, .tv_nsec = 1e9 * (seconds - floor(seconds))};
        if (ppoll(ends, 4 * count + 1, &most, NULL) <= 0)
            continue;
        now = monotonic();
        for (int32_t i = 0; i < count; i++) {
            if (ends[4 * i + 1].revents)
                hear(&links[i], &a->pairs[i]);
            if (ends[4 * i + 2].revents)
                receive(a, links[i].receiver, now);
        }
        if (ends[4 * count].revents) {
            uint64_t word;
            if (read(wake, &word, sizeof word) < 0 && !again())
                break;
        }
    }
    for (int32_t i = 0; i < count; i++)
        shut_all(&links[i]);
    free(ends);
    free(waiting);
    return 0;
}
