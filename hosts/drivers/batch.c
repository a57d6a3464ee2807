/* Datagrams of a UDP socket, many a system call: sendmmsg(2) and recvmmsg(2). What goes wrong is returned as -errno. */
#include "batch.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct Batch {
    int descriptor, bytes, peers_count; /* bytes of a whole datagram */
    Datagrams sender, receiver;
    struct sockaddr_in *peers, *sources;
    struct mmsghdr *outgoing, *incoming;
    struct iovec *from, *into;
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

/* Four bytes of an address each. */
void batch_peers(Batch *b, const uint8_t *addresses, const uint16_t *ports, int32_t count) {
    b->peers_count = count;
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

/* Send these rows to a peer, up to `together` as one message that the kernel cuts; how many have left. -ERANGE: there is no such row. */
int64_t batch_send(Batch *b, const int64_t *rows, int64_t count, int32_t length, int32_t together, int32_t peer) {
    int messages = 0;
    count = count < b->sender.count ? count : b->sender.count;
    for (int64_t i = 0; i < count; i++) {
        if (rows[i] < 0 || rows[i] >= b->sender.count)
            return -ERANGE;
        b->from[i] = (struct iovec){b->sender.first + rows[i] * b->sender.stride, length};
        struct msghdr *message = &b->outgoing[i / together].msg_hdr;
        if (i % together == 0) {
            *message = (struct msghdr){.msg_iov = &b->from[i]};
            if (b->peers_count > 1) { /* else the socket is connected */
                message->msg_name = &b->peers[peer];
                message->msg_namelen = sizeof b->peers[peer];
            }
            messages++;
        }
        message->msg_iovlen++;
    }
    int sent = sendmmsg(b->descriptor, b->outgoing, messages, 0);
    if (sent < 0)
        return -errno;
    int64_t left = (int64_t)sent * together;
    return left < count ? left : count;
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
    bool connected = b->peers_count == 1; /* the kernel looks at the source then */
    for (int64_t i = 0; i < b->receiver.count && !connected; i++) {
        b->incoming[i].msg_hdr.msg_name = &b->sources[i];
        b->incoming[i].msg_hdr.msg_namelen = sizeof b->sources[i];
    }
    int come = recvmmsg(b->descriptor, b->incoming, b->receiver.count, MSG_DONTWAIT, NULL), n = 0;
    if (come < 0)
        return -errno;
    for (int i = 0; i < come; i++) {
        if (!connected && !known(b, &b->sources[i]))
            continue;
        lengths[n] = b->incoming[i].msg_hdr.msg_flags & MSG_TRUNC ? 0 : b->incoming[i].msg_len;
        if (n < i)
            memcpy(b->into[n].iov_base, b->into[i].iov_base, b->bytes);
        n++;
    }
    return n;
}
