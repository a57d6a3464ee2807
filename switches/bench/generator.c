// Traffic of many SwitchML workers in lockstep, to measure a switch: prebuilt update packets, sent in windows of slots,
// the next window as soon as worker 0 has the results of the last. One thread, sendmmsg, a receive ring.
//   generator K SLOTS SECONDS WORKERS_PER_PORT INTERFACE...
// Prints the updates sent and the results worker 0 received. Worker w is at interface w / WORKERS_PER_PORT.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define HEADERS (14 + 20 + 8 + 16)
#define MAX_WORKERS 32
#define RING_BYTES (8u << 20)
#define FRAME 2048

static void die(const char *what) { perror(what); exit(1); }

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint16_t checksum(const uint8_t *p, size_t n) {
    uint32_t sum = 0;
    for (size_t i = 0; i < n; i += 2) sum += (uint32_t)p[i] << 8 | p[i + 1];
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

static void put16(uint8_t *p, unsigned v) { p[0] = (uint8_t)(v >> 8); p[1] = (uint8_t)v; }
static void put32(uint8_t *p, uint32_t v) { put16(p, v >> 16); put16(p + 2, v & 0xffff); }

// worker w has the address 10.0.0.w+1 and the MAC 02:00:00:00:00:w+1; the switch has 10.0.0.254 and 02:00:00:00:00:fe
static void build(uint8_t *p, unsigned k, unsigned worker, unsigned slot) {
    unsigned size = HEADERS + 4 * k;
    memset(p, 0, size);
    memcpy(p, "\x02\0\0\0\0\xfe\x02\0\0\0\0", 11);
    p[11] = (uint8_t)(worker + 1);
    put16(p + 12, 0x0800);
    uint8_t *ip = p + 14, *udp = ip + 20, *s = udp + 8;
    ip[0] = 0x45, ip[8] = 64, ip[9] = 17;
    put16(ip + 2, size - 14);
    put32(ip + 12, 0x0a000001 + worker);
    put32(ip + 16, 0x0a0000fe);
    put16(ip + 10, checksum(ip, 20));
    put16(udp, 48864), put16(udp + 2, 48864), put16(udp + 4, size - 34);
    s[1] = (uint8_t)worker, s[2] = 1;
    put16(s + 4, slot);
    put32(s + 8, 1);  // the epoch
    for (unsigned j = 0; j < k; j++) put32(s + 16 + 4 * j, worker * 1000 + j);
}

static int open_port(const char *interface) {
    int fd = socket(AF_PACKET, SOCK_RAW, 0), one = 1, buffer = 8 << 20;
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(interface)};
    if (fd < 0 || !address.sll_ifindex) die(interface);
    setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer);
    if (bind(fd, (struct sockaddr *)&address, sizeof address)) die(interface);
    return fd;
}

static int open_ring(const char *interface, uint8_t **ring) {
    int fd = socket(AF_PACKET, SOCK_RAW, 0), version = TPACKET_V2, one = 1;
    struct tpacket_req request = {1 << 16, RING_BYTES >> 16, FRAME, RING_BYTES / FRAME};
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)if_nametoindex(interface)};
    setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version);
    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one);
    if (setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request)) die("ring");
    *ring = mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (*ring == MAP_FAILED || bind(fd, (struct sockaddr *)&address, sizeof address)) die("ring");
    return fd;
}

int main(int argc, char **argv) {
    if (argc < 6) return fprintf(stderr, "usage: generator K SLOTS SECONDS WORKERS_PER_PORT INTERFACE...\n"), 2;
    unsigned k = (unsigned)atoi(argv[1]), slots = (unsigned)atoi(argv[2]), per_port = (unsigned)atoi(argv[4]);
    unsigned ports = (unsigned)argc - 5, workers = ports * per_port, size = HEADERS + 4 * k;
    double seconds = atof(argv[3]);
    if (workers > MAX_WORKERS) return fprintf(stderr, "at most %d workers\n", MAX_WORKERS), 2;
    int fds[MAX_WORKERS];
    for (unsigned i = 0; i < ports; i++) fds[i] = open_port(argv[5 + i]);
    uint8_t *ring;
    int rx = open_ring(argv[5], &ring);
    uint8_t *packets = malloc((size_t)workers * slots * size);
    struct mmsghdr *messages = calloc((size_t)workers * slots, sizeof *messages);
    struct iovec *vectors = calloc((size_t)workers * slots, sizeof *vectors);
    // the packets of one port lie together, slot by slot
    for (unsigned w = 0; w < workers; w++)
        for (unsigned s = 0; s < slots; s++) {
            size_t i = (size_t)(w / per_port) * per_port * slots + s * per_port + w % per_port;
            build(packets + i * size, k, w, s);
            vectors[i] = (struct iovec){packets + i * size, size};
            messages[i].msg_hdr = (struct msghdr){.msg_iov = &vectors[i], .msg_iovlen = 1};
        }
    uint64_t sent = 0, results = 0, lost = 0;
    unsigned frame = 0;
    double start = now(), end = start + seconds;
    for (uint32_t round = 0; now() < end; round++) {
        for (size_t i = 0; i < (size_t)workers * slots; i++) {
            uint8_t *s = packets + i * size + 42;
            s[3] = round & 1;
            put32(s + 12, round * slots + ((uint32_t)s[4] << 8 | s[5]));
        }
        for (unsigned first = 0; first < slots; first += 16) {  // the ports take turns
            unsigned n = (slots - first < 16 ? slots - first : 16) * per_port;
            for (unsigned p = 0; p < ports; p++) {
                struct mmsghdr *batch = messages + (size_t)p * per_port * slots + first * per_port;
                for (unsigned done = 0; done < n;) {
                    int m = sendmmsg(fds[p], batch + done, n - done, 0);
                    if (m < 0 && errno != ENOBUFS && errno != EAGAIN) die("sendmmsg");
                    if (m > 0) done += (unsigned)m, sent += (unsigned)m;
                }
            }
        }
        for (unsigned got = 0; got < slots * per_port;) {
            struct tpacket2_hdr *header = (struct tpacket2_hdr *)(ring + (size_t)frame * FRAME);
            if (__atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER) {
                const uint8_t *data = (uint8_t *)header + header->tp_mac;
                if (header->tp_len == size && data[42 + 2] == 2) got++, results++;
                __atomic_store_n(&header->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
                frame = (frame + 1) % (RING_BYTES / FRAME);
                continue;
            }
            struct pollfd wait = {rx, POLLIN, 0};
            if (poll(&wait, 1, 200) == 0) {  // something was dropped: this round is given up
                lost += slots * per_port - got;
                break;
            }
        }
    }
    printf("{\"seconds\": %.6f, \"sent\": %llu, \"results\": %llu, \"missing\": %llu}\n", now() - start,
           (unsigned long long)sent, (unsigned long long)results, (unsigned long long)lost);
    return 0;
}
