// A port whose link is a Unix socket (SOCK_SEQPACKET, one packet per message) and not an interface: -i PORT@unix:PATH.
// Packets between a P4Runtime controller and the switch travel over it. A new connection replaces the old one.
#define _GNU_SOURCE
#include "runtime.h"
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define RX_BATCH 64  // packets handled before other ports get a turn

static int listener = -1, peer = -1;
static unsigned number;

static void hang_up(void) {
    close(peer);
    peer = -1;
}

static void write_packet(unsigned port, const uint8_t *data, size_t length) {
    if (peer >= 0 && send(peer, data, length, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)length) return;
    port_counts[port].sent--;  // the caller has counted it
    port_counts[port].send_errors++;
}

bool controller_port_add(unsigned port, const char *path) {
    if (listener >= 0) return false;
    listener = socket_claim(path, SOCK_SEQPACKET, 1);
    number = port;
    port_add_virtual(port, write_packet);
    return true;
}

int controller_port_fd(void) { return listener; }

void controller_port_accept(int epoll, uint64_t who) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    if (peer >= 0) hang_up();
    peer = fd;
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = who};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

bool controller_port_read(void) {
    static uint8_t data[MAX_PACKET + 1];
    for (unsigned n = 0; n < RX_BATCH && peer >= 0; n++) {
        ssize_t length = recv(peer, data, sizeof data, MSG_DONTWAIT);
        if (length < 0 && (errno == EAGAIN || errno == EINTR)) return false;
        if (length <= 0) {
            hang_up();
        } else if (length > MAX_PACKET) {
            port_counts[number].oversize++;
        } else {
            port_counts[number].received++;
            pipeline_receive(number, data, (size_t)length);
        }
    }
    return peer >= 0;
}
