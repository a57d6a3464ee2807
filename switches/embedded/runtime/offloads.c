// What the kernel leaves out of a packet or keeps beside it, because it takes the interface for one that adds it:
// VLAN tags, checksums of TCP and UDP, and the cutting of TCP's data into packets (segmentation).
#define _GNU_SOURCE
#include "runtime.h"
#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAC_BYTES 12  // destination and source
#define IPV6_HEADER 40

// --- tags

static uint8_t *insert_tag(const struct tpacket2_hdr *header, uint8_t *data) {
    unsigned type = header->tp_status & TP_STATUS_VLAN_TPID_VALID ? header->tp_vlan_tpid : ETH_P_8021Q;
    memmove(data - TAG_BYTES, data, MAC_BYTES);
    data -= TAG_BYTES;
    store16(data + MAC_BYTES, type);
    store16(data + MAC_BYTES + 2, header->tp_vlan_tci);
    return data;
}

// --- checksums

static uint32_t sum16(const uint8_t *data, size_t length, uint32_t sum) {
    for (; length > 1; data += 2, length -= 2) sum += (uint32_t)load16(data);
    return length ? sum + ((uint32_t)*data << 8) : sum;
}

// `addresses`: both of them, which are part of the pseudo-header (RFC 9293, 3.1; RFC 768; RFC 8200, 8.1)
static void finish_transport(uint8_t protocol, uint8_t *data, size_t length, const uint8_t *addresses, size_t address_bytes) {
    unsigned at = protocol == IPPROTO_TCP ? 16 : 6;
    if ((protocol != IPPROTO_TCP && protocol != IPPROTO_UDP) || length < at + 2u || length > UINT16_MAX) return;
    store16(data + at, 0);
    uint32_t sum = sum16(data, length, sum16(addresses, address_bytes, protocol + (uint32_t)length));
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    unsigned checksum = ~sum & 0xffff;
    store16(data + at, protocol == IPPROTO_UDP && !checksum ? 0xffff : checksum);
}

static void finish_ipv4(uint8_t *data, size_t length) {
    size_t header = (data[0] & 0xfu) * 4u, total = length < 20 ? 0 : load16(data + 2);
    if (header < 20 || total < header || total > length) return;
    finish_transport(data[9], data + header, total - header, data + 12, 8);
}

static void finish_ipv6(uint8_t *data, size_t length) {
    size_t end = length < IPV6_HEADER ? 0 : IPV6_HEADER + load16(data + 4), at = IPV6_HEADER;
    if (end > length) return;
    uint8_t next = data[6];
    while ((next == IPPROTO_HOPOPTS || next == IPPROTO_ROUTING || next == IPPROTO_DSTOPTS) && at + 8 <= end) {
        next = data[at];
        at += (data[at + 1] + 1u) * 8;
    }
    if (at <= end) finish_transport(next, data + at, end - at, data + 8, 32);
}

static void finish_checksum(uint8_t *data, size_t length) {
    size_t at = MAC_BYTES;
    while (at + 2 <= length) {
        unsigned type = (unsigned)load16(data + at);
        if (type == ETH_P_8021Q || type == ETH_P_8021AD) {
            at += TAG_BYTES;
            continue;
        }
        at += 2;
        if (type == ETH_P_IP && at < length) finish_ipv4(data + at, length - at);
        if (type == ETH_P_IPV6) finish_ipv6(data + at, length - at);
        return;
    }
}

uint8_t *offloads_undo(const struct tpacket2_hdr *header, uint8_t *data, size_t *length) {
    if (header->tp_status & TP_STATUS_VLAN_VALID) {
        data = insert_tag(header, data);
        *length += TAG_BYTES;
    }
    if (header->tp_status & TP_STATUS_CSUMNOTREADY) finish_checksum(data, *length);
    return data;
}

// --- the other end of a veth pair

static struct nlattr *attribute(void *from, size_t length, unsigned type) {
    for (struct nlattr *a = from; length >= sizeof *a && a->nla_len >= sizeof *a && a->nla_len <= length;) {
        if ((a->nla_type & NLA_TYPE_MASK) == type) return a;
        size_t step = NLA_ALIGN(a->nla_len);
        if (step >= length) break;
        length -= step;
        a = (struct nlattr *)((char *)a + step);
    }
    return NULL;
}

static void *content(struct nlattr *a) { return (char *)a + NLA_HDRLEN; }
static size_t content_bytes(const struct nlattr *a) { return a->nla_len - (size_t)NLA_HDRLEN; }

// the interface's description; 0 if the kernel gives none
static size_t link_message(unsigned index, void *answer, size_t room) {
    struct { struct nlmsghdr head; struct ifinfomsg link; } request = {
        {sizeof request, RTM_GETLINK, NLM_F_REQUEST, 1, 0}, {.ifi_family = AF_UNSPEC, .ifi_index = (int)index}};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    ssize_t n = fd < 0 || send(fd, &request, sizeof request, 0) < 0 ? -1 : recv(fd, answer, room, 0);
    if (fd >= 0) close(fd);
    const struct nlmsghdr *head = answer;
    return n >= (ssize_t)sizeof request && head->nlmsg_type == RTM_NEWLINK ? (size_t)n : 0;
}

// the index of a veth interface's peer, if that is in this network namespace; 0 otherwise
static unsigned local_peer(unsigned index) {
    static _Alignas(struct nlmsghdr) char answer[1 << 16];
    size_t length = link_message(index, answer, sizeof answer), before = NLMSG_LENGTH(sizeof(struct ifinfomsg));
    if (length <= before) return 0;
    char *all = answer + NLMSG_ALIGN(before);
    length -= before;
    struct nlattr *peer = attribute(all, length, IFLA_LINK), *info = attribute(all, length, IFLA_LINKINFO);
    struct nlattr *kind = info ? attribute(content(info), content_bytes(info), IFLA_INFO_KIND) : NULL;
    if (!peer || !kind || strncmp(content(kind), "veth", content_bytes(kind)) || attribute(all, length, IFLA_LINK_NETNSID)) return 0;
    uint32_t found;
    memcpy(&found, content(peer), sizeof found);
    return found;
}

// true if the feature was on and is off now
static bool turn_off(int fd, struct ifreq *request, uint32_t get, uint32_t set) {
    struct ethtool_value value = {.cmd = get};
    request->ifr_data = (char *)&value;
    if (ioctl(fd, SIOCETHTOOL, request) || !value.data) return false;
    value = (struct ethtool_value){.cmd = set, .data = 0};
    return !ioctl(fd, SIOCETHTOOL, request);
}

void offloads_turn_off(unsigned port, int fd, const char *interface) {
    struct ifreq request = {0};
    unsigned peer = local_peer(if_nametoindex(interface));
    if (!peer || !if_indextoname(peer, request.ifr_name)) return;
    bool off = turn_off(fd, &request, ETHTOOL_GTSO, ETHTOOL_STSO);
    off |= turn_off(fd, &request, ETHTOOL_GGSO, ETHTOOL_SGSO);
    off |= turn_off(fd, &request, ETHTOOL_GTXCSUM, ETHTOOL_STXCSUM);
    if (off)
        fprintf(stderr, "port %u: segmentation and checksum offloads of %s, the peer of %s, were on; they are off now\n", port,
                request.ifr_name, interface);
}
