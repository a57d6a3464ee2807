// A switch for SwitchML, written by hand: what p4/switchml.p4 does in one rack without a parent, for one job (number 0).
// A yardstick for switches that are compiled. One thread; a receive ring and a batch of messages to send per interface.
//   reference K SLOTS WORKERS INTERFACE...
// Worker w is at interface w * INTERFACES / WORKERS and has the address 10.0.0.w+1 and the MAC 02:00:00:00:00:w+1.
// Prints "ready" when it listens; SIGTERM or SIGINT ends it, and it prints how many frames it has received and sent.
// Left out: queries and statuses, a parent, other jobs, loss, forwarding of what is not SwitchML, counters. Bytes behind
// the end of a datagram, which the P4 program passes on, are cut off.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define MAX_WORKERS 32
#define MAX_PORTS 64
#define MAX_SLOTS 2048  // the P4 program's pool has 4096 cells, for both versions
#define UDP_PORT 48864
#define UPDATE 1
#define RESULT 2
#define QUEUE 256       // messages of an interface that can wait to be sent together
#define BURST 64        // frames that an interface may have handled before it is the next one's turn
#ifndef SPINS
#define SPINS 0         // times that all rings are looked at in vain before the process sleeps
#endif
#define BEFORE 128      // bytes of a ring's frame for what the kernel puts before the Ethernet header

typedef struct __attribute__((packed)) {
    uint8_t mac_dst[6], mac_src[6];
    uint16_t ethertype;
    uint8_t version_ihl, tos;
    uint16_t length, identification, fragment;
    uint8_t ttl, protocol;
    uint16_t checksum;
    uint32_t ip_src, ip_dst;
    uint16_t udp_src, udp_dst, udp_length, udp_checksum;
    uint8_t job, worker, kind, version;
    uint16_t slot;
    uint8_t exponent, mark;
    uint32_t epoch, chunk;
} Headers;  // in network byte order, as they are on the wire

typedef struct {
    uint32_t epoch, chunk;  // the round; epoch 0: none yet
    uint32_t seen;          // bitmap of the workers that are in
    uint8_t exponent;       // the largest
    bool bare;              // the round has tags: they are in values[0]
    uint32_t flush;         // number of the flush that sends this cell's values
    uint32_t *values;       // in host byte order while workers are missing, then in network byte order
} Cell;

typedef struct {
    Headers headers[QUEUE];
    struct iovec pieces[QUEUE][2];  // headers, and the cell's values
    struct mmsghdr messages[QUEUE];
    unsigned queued;
    int fd;
    uint8_t *ring;
    unsigned frame;
} Port;

typedef struct {
    uint8_t mac[6];
    uint32_t ip;  // in network byte order
    unsigned port;
} Worker;

static unsigned k, slots, workers, ports, frame_bytes, frames;
static uint32_t everyone, newest_epoch, flushes = 1;
static uint64_t received, sent;
static Worker worker[MAX_WORKERS];
static Port port[MAX_PORTS];
static Cell *cells;
static volatile sig_atomic_t stopped;

static void stop(int number) { (void)number; stopped = 1; }

static void die(const char *what) { perror(what); exit(1); }

static void __attribute__((noreturn, format(printf, 1, 2))) refuse(const char *format, ...) {
    va_list values;
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    exit(2);
}

typedef uint32_t __attribute__((aligned(1), may_alias)) Wire;  // an integer of a packet, in network byte order

// What happens to a cell's values, modulo 2^32 and in one pass, when a packet of the first worker, of another, and of the
// last one comes. A tag is a vector of one.
static void store(uint32_t *restrict held, const Wire *restrict in, unsigned n) {
    for (unsigned j = 0; j < n; j++) held[j] = __builtin_bswap32(in[j]);
}

static void add(uint32_t *restrict held, const Wire *restrict in, unsigned n) {
    for (unsigned j = 0; j < n; j++) held[j] += __builtin_bswap32(in[j]);
}

static void add_last(uint32_t *restrict held, const Wire *restrict in, unsigned n) {
    for (unsigned j = 0; j < n; j++) held[j] = __builtin_bswap32(held[j] + __builtin_bswap32(in[j]));
}

// the IPv4 checksum of a header without options, whatever is in its checksum field
static uint16_t checksum(const Headers *h) {
    uint16_t w[10];
    uint32_t sum = 0;
    memcpy(w, &h->version_ihl, sizeof w);
    for (unsigned i = 0; i < 10; i++) sum += i == 5 ? 0 : w[i];
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~((sum & 0xffff) + (sum >> 16));
}

static void flush(void) {
    for (Port *p = port; p < port + ports; p++) {
        for (unsigned done = 0; done < p->queued;) {
            int n = sendmmsg(p->fd, p->messages + done, p->queued - done, 0);
            if (n > 0) done += (unsigned)n, sent += (unsigned)n;
            else if (errno != EINTR) done++;  // this one cannot be sent: it is lost
        }
        p->queued = 0;
    }
    flushes++;
}

// Queue what a cell holds, as the answer to an update, for a port; the caller fills in the destination.
static Headers *answer(Port *p, const Headers *update, Cell *cell, size_t bytes) {
    if (p->queued == QUEUE) flush();
    cell->flush = flushes;
    p->pieces[p->queued][1] = (struct iovec){cell->values, bytes};
    Headers *h = &p->headers[p->queued++];
    *h = *update;
    memcpy(h->mac_src, update->mac_dst, 6);
    h->ip_src = update->ip_dst;
    h->udp_src = update->udp_dst;
    h->udp_checksum = 0;
    h->ttl = 64;
    h->kind = RESULT;
    h->exponent = cell->exponent;
    return h;
}

static void broadcast(const Headers *update, Cell *cell, size_t bytes) {
    for (unsigned w = 0; w < workers; w++) {
        Headers *h = answer(&port[worker[w].port], update, cell, bytes);
        memcpy(h->mac_dst, worker[w].mac, 6);
        h->ip_dst = worker[w].ip;
        h->udp_dst = htons(UDP_PORT);
        h->worker = (uint8_t)w;
        h->checksum = checksum(h);
    }
}

static void retransmit(unsigned from, const Headers *update, Cell *cell, size_t bytes) {
    Headers *h = answer(&port[from], update, cell, bytes);
    memcpy(h->mac_dst, update->mac_src, 6);
    h->ip_dst = update->ip_src;
    h->udp_dst = update->udp_src;
    h->checksum = checksum(h);
}

// Whether a frame is a whole update: how many integers it has (a tag counts as one), or 0.
static unsigned well_formed(const Headers *h, size_t captured) {
    if (captured < sizeof *h || h->ethertype != htons(ETH_P_IP) || h->version_ihl != 0x45 || h->protocol != IPPROTO_UDP) return 0;
    if (h->fragment & htons(0x3fff) || h->udp_dst != htons(UDP_PORT) || h->kind != UPDATE) return 0;
    size_t length = ntohs(h->udp_length), fixed = 8 + 16;
    if (ntohs(h->length) != length + 20 || captured < length + 34 || (length != fixed + 4 && length != fixed + 4 * k)) return 0;
    if (h->version > 1 || h->epoch == 0 || checksum(h) != h->checksum) return 0;
    return (unsigned)(length - fixed) / 4;
}

static bool admitted(unsigned from, const Headers *h) {
    if (h->job != 0 || ntohs(h->slot) >= slots || h->worker >= workers) return false;
    const Worker *w = &worker[h->worker];
    return w->port == from && w->ip == h->ip_src && memcmp(w->mac, h->mac_src, 6) == 0;
}

static void handle(unsigned from, const Headers *h, size_t captured) {
    unsigned n = well_formed(h, captured);
    if (n == 0 || !admitted(from, h)) return;
    uint32_t epoch = ntohl(h->epoch), chunk = ntohl(h->chunk), in = 1u << h->worker;
    if (epoch != newest_epoch) {
        if (newest_epoch != 0 && (int32_t)(epoch - newest_epoch) <= 0) return;  // of an earlier group
        newest_epoch = epoch;
    }
    Cell *cell = &cells[ntohs(h->slot) + h->version * slots];
    int32_t ahead = (int32_t)(chunk - cell->chunk);
    if (cell->epoch != epoch || ahead > 0) {
        if (cell->flush == flushes) flush();  // what the cell holds has still to be sent
        cell->epoch = epoch;
        cell->chunk = chunk;
        cell->bare = n == 1;
        cell->seen = 0;
    } else if (ahead < 0 || cell->bare != (n == 1)) {
        return;  // left behind by its round, or of the other shape
    }
    if (cell->seen & in) {
        if (cell->seen == everyone) retransmit(from, h, cell, 4 * n);
        return;
    }
    const Wire *vector = (const Wire *)(h + 1);
    bool first = cell->seen == 0;
    cell->seen |= in;
    if (first || h->exponent > cell->exponent) cell->exponent = h->exponent;
    if (cell->seen != everyone) {
        if (first) store(cell->values, vector, n);
        else add(cell->values, vector, n);
        return;
    }
    if (first) memcpy(cell->values, vector, 4 * n);  // a job of one worker
    else add_last(cell->values, vector, n);
    broadcast(h, cell, 4 * n);
}

// Handle what is in a port's ring, a burst at most. Returns the number of frames.
static unsigned take(unsigned number) {
    Port *p = &port[number];
    for (unsigned n = 0; n < BURST; n++) {
        struct tpacket2_hdr *frame = (struct tpacket2_hdr *)(p->ring + (size_t)p->frame * frame_bytes);
        uint32_t status = __atomic_load_n(&frame->tp_status, __ATOMIC_ACQUIRE);
        if (!(status & TP_STATUS_USER)) return n;
        received++;
        // a VLAN tag, which the kernel has taken off, makes it something else
        if (!(status & TP_STATUS_VLAN_VALID)) handle(number, (const Headers *)((uint8_t *)frame + frame->tp_mac), frame->tp_snaplen);
        __atomic_store_n(&frame->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        p->frame = (p->frame + 1) % frames;
    }
    return BURST;
}

static void open_port(Port *p, const char *interface) {
    int version = TPACKET_V2, one = 1, buffer = 8 << 20;
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    address.sll_ifindex = (int)if_nametoindex(interface);
    if (!address.sll_ifindex) refuse("There is no network interface %s.\n", interface);
    size_t bytes = (size_t)frames * frame_bytes;
    unsigned block = frame_bytes < 1 << 16 ? 1 << 16 : frame_bytes;
    struct tpacket_req request = {block, (unsigned)(bytes / block), frame_bytes, frames};
    p->fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (p->fd < 0 || setsockopt(p->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version)
        || setsockopt(p->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one)
        || setsockopt(p->fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one)
        || setsockopt(p->fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request)) die(interface);
    setsockopt(p->fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer);
    p->ring = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, p->fd, 0);
    if (p->ring == MAP_FAILED || bind(p->fd, (struct sockaddr *)&address, sizeof address)) die(interface);
    for (unsigned i = 0; i < QUEUE; i++) {
        p->pieces[i][0] = (struct iovec){&p->headers[i], sizeof p->headers[i]};
        p->messages[i].msg_hdr = (struct msghdr){.msg_iov = p->pieces[i], .msg_iovlen = 2};
    }
}

static unsigned number(const char *text, const char *what, unsigned most) {
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || value < 1 || value > most)
        refuse("%s must be a number from 1 to %u, not \"%s\".\n", what, most, text);
    return (unsigned)value;
}

int main(int argc, char **argv) {
    if (argc < 5) refuse("Usage: reference K SLOTS WORKERS INTERFACE...\n");
    k = number(argv[1], "K", 256);
    if (k != 32 && k != 64 && k != 256) refuse("K must be 32, 64 or 256, not %u.\n", k);
    slots = number(argv[2], "SLOTS", MAX_SLOTS);
    workers = number(argv[3], "WORKERS", MAX_WORKERS);
    ports = (unsigned)argc - 4;
    if (ports > MAX_PORTS) refuse("There can be at most %d interfaces, not %u.\n", MAX_PORTS, ports);
    everyone = workers == 32 ? ~0u : (1u << workers) - 1;
    for (unsigned w = 0; w < workers; w++)
        worker[w] = (Worker){{2, 0, 0, 0, 0, (uint8_t)(w + 1)}, htonl(0x0a000001 + w), w * ports / workers};
    // a ring holds both versions of all slots of a port's workers
    for (frame_bytes = 256; frame_bytes < BEFORE + sizeof(Headers) + 4 * k;) frame_bytes *= 2;
    for (frames = 256; frames < 2 * slots * ((workers + ports - 1) / ports);) frames *= 2;
    uint32_t *values = aligned_alloc(64, (size_t)2 * slots * k * sizeof *values);
    cells = calloc(2 * slots, sizeof *cells);
    if (!cells || !values) die("memory");
    for (unsigned c = 0; c < 2 * slots; c++) cells[c].values = values + (size_t)c * k;

    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    struct pollfd waits[MAX_PORTS];
    for (unsigned p = 0; p < ports; p++) {
        open_port(&port[p], argv[4 + p]);
        waits[p] = (struct pollfd){port[p].fd, POLLIN, 0};
    }
    puts("ready");
    fflush(stdout);
    for (unsigned idle = 0; !stopped;) {
        unsigned taken = 0;
        for (unsigned p = 0; p < ports; p++) taken += take(p);
        flush();
        idle = taken ? 0 : idle + 1;
        if (idle > SPINS) poll(waits, ports, 100);  // the time limit is for a signal that came just before
    }
    printf("{\"received\": %llu, \"sent\": %llu}\n", (unsigned long long)received, (unsigned long long)sent);
    return 0;
}
