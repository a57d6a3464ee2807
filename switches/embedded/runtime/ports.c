// Packets in and out of interfaces: a memory-mapped AF_PACKET ring to receive, sendmmsg to send.
#define _GNU_SOURCE
#include "runtime.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define RX_BYTES (8u << 20)     // of receive ring a port
#define RX_BATCH 64             // packets handled before other ports get a turn
#define TX_BATCH 64             // packets handed to the kernel at once
#define BESIDE (TP_STATUS_VLAN_VALID | TP_STATUS_CSUMNOTREADY)  // the kernel keeps something of the packet back
#define SEND_BUFFER (128 << 10) // bytes that may wait in the interface's qdisc; the rest waits in the egress queue
#define WHOLE_BYTES (4 << 20)   // of packets, with what the kernel adds, that do not fit in their places in the ring

struct port {
    port_writer *write;  // where packets go that no interface sends; NULL if one does
    bool blocked;
    int fd;
    char interface[IFNAMSIZ];
    uint8_t *ring;
    unsigned frame_size, frames, next, mtu;
    bool segments_told, dropped_told;  // that packets came that are longer than the MTU, or were dropped for their size
    uint8_t *out;  // TX_BATCH packets
    struct mmsghdr messages[TX_BATCH];
    struct iovec vectors[TX_BATCH];
    unsigned first, filled;  // messages[first..filled) wait to be sent
};

static struct port *ports[MAX_PORTS];
static uint16_t used[MAX_PORTS];
static unsigned used_count;
static bool turned;  // a port has been blocked, or takes packets again
struct port_counts port_counts[MAX_PORTS];

static void die(const char *interface, const char *what) {
    fprintf(stderr, "error: interface %s: %s: %s\n", interface, what, strerror(errno));
    exit(1);
}

static void buffer_size(const struct port *p, int forced, int usual, int bytes) {
    if (setsockopt(p->fd, SOL_SOCKET, forced, &bytes, sizeof bytes)) setsockopt(p->fd, SOL_SOCKET, usual, &bytes, sizeof bytes);
}

// places that packets of the present MTU fit in; longer ones, of which there may be some once that has grown, come whole beside it
static void open_ring(struct port *p) {
    int version = TPACKET_V2, reserve = TAG_BYTES, aside = 1;
    if (setsockopt(p->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version)) die(p->interface, "TPACKET_V2");
    if (setsockopt(p->fd, SOL_PACKET, PACKET_RESERVE, &reserve, sizeof reserve)) die(p->interface, "PACKET_RESERVE");
    if (setsockopt(p->fd, SOL_PACKET, PACKET_COPY_THRESH, &aside, sizeof aside)) die(p->interface, "PACKET_COPY_THRESH");
    buffer_size(p, SO_RCVBUFFORCE, SO_RCVBUF, WHOLE_BYTES);
    p->frame_size = 2048;
    while (p->frame_size < p->mtu + 256 && p->frame_size < 16384) p->frame_size *= 2;
    p->frames = RX_BYTES / p->frame_size;
    unsigned block = p->frame_size < 1u << 16 ? 1u << 16 : p->frame_size;
    struct tpacket_req request = {block, RX_BYTES / block, p->frame_size, p->frames};
    if (setsockopt(p->fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request)) die(p->interface, "receive ring");
    p->ring = mmap(NULL, RX_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
    if (p->ring == MAP_FAILED) die(p->interface, "receive ring");
}

void port_add(unsigned port, const char *interface) {
    struct port *p = calloc(1, sizeof *p);
    if (!p) abort();
    struct ifreq request = {0};
    snprintf(p->interface, sizeof p->interface, "%s", interface);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface);
    unsigned index = if_nametoindex(interface);
    if (!index) {
        fprintf(stderr, "error: there is no interface %s\n", interface);
        exit(1);
    }
    p->fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (p->fd < 0) die(interface, "packet socket (are you root?)");
    if (ioctl(p->fd, SIOCGIFMTU, &request)) die(interface, "MTU");
    p->mtu = (unsigned)request.ifr_mtu;
    open_ring(p);
    int one = 1;
    struct packet_mreq promiscuous = {.mr_ifindex = (int)index, .mr_type = PACKET_MR_PROMISC};
    setsockopt(p->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous);
    if (setsockopt(p->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one)) die(interface, "PACKET_IGNORE_OUTGOING");
    buffer_size(p, SO_SNDBUFFORCE, SO_SNDBUF, SEND_BUFFER);
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)index};
    if (bind(p->fd, (struct sockaddr *)&address, sizeof address)) die(interface, "bind");
    offloads_turn_off(port, p->fd, interface);
    p->out = malloc(TX_BATCH * MAX_PACKET);
    if (!p->out) abort();
    for (unsigned i = 0; i < TX_BATCH; i++) {
        p->vectors[i].iov_base = p->out + i * MAX_PACKET;
        p->messages[i].msg_hdr.msg_iov = &p->vectors[i];
        p->messages[i].msg_hdr.msg_iovlen = 1;
    }
    ports[port] = p;
    used[used_count++] = (uint16_t)port;
}

void port_add_virtual(unsigned port, port_writer *write) {
    struct port *p = calloc(1, sizeof *p);
    if (!p || !(p->out = malloc(TX_BATCH * MAX_PACKET))) abort();
    p->fd = -1;
    p->write = write;
    p->vectors[0].iov_base = p->out;
    snprintf(p->interface, sizeof p->interface, "virtual");
    ports[port] = p;
    used[used_count++] = (uint16_t)port;
}

bool port_exists(unsigned port) { return port < MAX_PORTS && ports[port]; }
int port_fd(unsigned port) { return ports[port]->fd; }
bool port_blocked(unsigned port) { return ports[port]->blocked; }

// bytes of the longest frame that the MTU allows, as far as it is known
static size_t longest(const struct port *p) { return p->mtu + ETH_HLEN + 2 * TAG_BYTES; }

// a packet longer than the MTU is one that the sender's interface was to cut into several; said once for a port
static void note_segments(unsigned port, size_t length) {
    struct port *p = ports[port];
    if (p->segments_told) return;
    struct ifreq request = {0};
    strcpy(request.ifr_name, p->interface);
    if (!ioctl(p->fd, SIOCGIFMTU, &request)) p->mtu = (unsigned)request.ifr_mtu;  // it may have changed
    if (length <= longest(p)) return;
    p->segments_told = true;
    fprintf(stderr, "port %u: a packet of %zu bytes exceeds the MTU of %s, and so cannot be sent on: "
            "run `ethtool -K IFACE tso off gso off` where IFACE is the interface at the other end\n", port, length, p->interface);
}

static void drop_for_size(unsigned port, size_t length) {
    struct port *p = ports[port];
    port_counts[port].oversize++;
    if (p->dropped_told) return;
    p->dropped_told = true;
    if (length > MAX_PACKET) {
        fprintf(stderr, "port %u: a packet of %zu bytes was dropped: at most %d are taken in\n", port, length, MAX_PACKET);
    } else {
        fprintf(stderr, "port %u: a packet of %zu bytes was dropped: too many came at once that are longer than the MTU was when the switch "
                "started; set it before\n", port, length);
    }
}

// a packet that does not fit in its place in the ring: the kernel has put it aside, in the order of the ring; NULL if it could not
static uint8_t *whole(const struct port *p, const struct tpacket2_hdr *header) {
    static uint8_t packet[TAG_BYTES + MAX_PACKET];  // with room for the tag that the kernel keeps back
    if (!(header->tp_status & TP_STATUS_COPY)) return NULL;
    ssize_t n = recv(p->fd, packet + TAG_BYTES, MAX_PACKET, MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN) n = recv(p->fd, packet + TAG_BYTES, MAX_PACKET, MSG_DONTWAIT);  // that was of a link that was down
    return n == (ssize_t)header->tp_len ? packet + TAG_BYTES : NULL;
}

bool port_read(unsigned port) {
    struct port *p = ports[port];
    for (unsigned n = 0; n < RX_BATCH; n++) {
        struct tpacket2_hdr *header = (struct tpacket2_hdr *)(p->ring + (size_t)p->next * p->frame_size);
        if (!(__atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER)) return false;
        uint8_t *data = (uint8_t *)header + header->tp_mac;
        size_t length = header->tp_len;
        if (gate_closed && !gate_take(port, data, header->tp_snaplen)) return false;
        if (length > longest(p)) note_segments(port, length);
        if (length > header->tp_snaplen) data = whole(p, header);
        if (!data || length + (header->tp_status & TP_STATUS_VLAN_VALID ? TAG_BYTES : 0) > MAX_PACKET) {
            drop_for_size(port, length);
        } else {
            if (header->tp_status & BESIDE) data = offloads_undo(header, data, &length);
            port_counts[port].received++;
            disorder_receive(port, data, length);
        }
        __atomic_store_n(&header->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        p->next = (p->next + 1) % p->frames;
    }
    return true;
}

void port_failed(unsigned port) {
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(ports[port]->fd, SOL_SOCKET, SO_ERROR, &error, &size) || !error) return;
    fprintf(stderr, "port %u: interface %s: %s\n", port, ports[port]->interface, strerror(error));
}

static void flush(unsigned port) {
    struct port *p = ports[port];
    while (p->first < p->filled) {
        int sent = sendmmsg(p->fd, p->messages + p->first, p->filled - p->first, MSG_DONTWAIT);
        if (sent > 0) {
            port_counts[port].sent += (unsigned)sent;
            p->first += (unsigned)sent;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            p->blocked = turned = true;
            return;
        } else if (errno != EINTR) {  // this packet cannot go: ENOBUFS, ENETDOWN, EMSGSIZE
            port_counts[port].send_errors++;
            p->first++;
        }
    }
    p->first = p->filled = 0;
}

uint8_t *port_buffer(unsigned port) {
    struct port *p = ports[port];
    if (p->filled == TX_BATCH) flush(port);
    return p->blocked ? NULL : p->vectors[p->filled].iov_base;
}

void port_send(unsigned port, size_t length) {
    struct port *p = ports[port];
    if (p->write) {
        port_counts[port].sent++;
        p->write(port, p->out, length);
        return;
    }
    p->vectors[p->filled++].iov_len = length;
}

void ports_flush(void) {
    for (unsigned i = 0; i < used_count; i++)
        if (ports[used[i]]->filled && !ports[used[i]]->blocked) flush(used[i]);
}

void port_writable(unsigned port) {
    ports[port]->blocked = false;
    turned = true;
    flush(port);
}

bool ports_turned(void) {
    bool was = turned;
    turned = false;
    return was;
}

static void read_statistics(unsigned port) {
    struct tpacket_stats statistics;
    if (ports[port]->fd < 0) return;
    socklen_t size = sizeof statistics;
    if (!getsockopt(ports[port]->fd, SOL_PACKET, PACKET_STATISTICS, &statistics, &size))
        port_counts[port].ring_drops += statistics.tp_drops;
}

static void show_ports(int argc, char **argv, struct reply *reply) {
    (void)argc, (void)argv;
    for (unsigned port = 0; port < MAX_PORTS; port++) {
        if (!port_exists(port)) continue;
        read_statistics(port);
        const struct port_counts *c = &port_counts[port];
        say(reply, "port=%u interface=%s received=%llu sent=%llu queue_drops=%llu send_errors=%llu ring_drops=%llu oversize=%llu queued=%u\n",
            port, ports[port]->interface, (unsigned long long)c->received, (unsigned long long)c->sent,
            (unsigned long long)c->queue_drops, (unsigned long long)c->send_errors, (unsigned long long)c->ring_drops,
            (unsigned long long)c->oversize, queue_length(port));
    }
}

const struct command port_commands[] = {{"show_ports", 1, 1, show_ports, ""}, {0}};
