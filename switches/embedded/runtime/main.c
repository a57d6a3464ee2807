// The embedded switch: a v1model program on real interfaces. One thread; one packet at a time.
#define _GNU_SOURCE
#include "runtime.h"
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define MAX_EVENTS 64
#define KIND_LISTENER 0x20000u
#define KIND_CLIENT 0x10000u
#define KIND_SIGNAL 0x40000u
#define KIND_CONTROLLER 0x80000u  // its listener with KIND_LISTENER

static bool watched_for_room[MAX_PORTS];

static void usage(void) {
    fprintf(stderr, "usage: switch -i PORT@INTERFACE [-i ...] [-i PORT@unix:PATH] [--commands FILE] [--socket PATH] [--seed N] [--most-copies N]\n");
    exit(2);
}

static void add_interface(char *text) {
    char *at = strchr(text, '@');
    uint64_t port;
    if (at) *at = '\0';
    if (!at || !parse_uint(text, MAX_PORTS - 2, &port)) {
        fprintf(stderr, "error: -i takes PORT@INTERFACE, with a port from 0 to %d\n", MAX_PORTS - 2);
        exit(2);
    }
    if (port_exists((unsigned)port)) {
        fprintf(stderr, "error: port %s is given twice\n", text);
        exit(2);
    }
    if (strncmp(at + 1, "unix:", 5)) {
        port_add((unsigned)port, at + 1);
    } else if (!controller_port_add((unsigned)port, at + 6)) {
        fprintf(stderr, "error: only one port can be a controller's\n");
        exit(2);
    }
}

int64_t next_event(void) {
    int64_t queues = queues_next_event(), links = disorder_next_event();
    return queues < 0 || (links >= 0 && links < queues) ? links : queues;
}

#define CLOSED_PAUSE 1000u  // microseconds

static void watch(int epoll, int fd, uint64_t who) {
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = who};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

// ask to be told when a blocked port takes packets again, and stop asking when it does
static void watch_ports(int epoll) {
    if (!ports_turned()) return;
    for (unsigned port = 0; port < MAX_PORTS; port++) {
        if (!port_exists(port) || port_blocked(port) == watched_for_room[port]) continue;
        watched_for_room[port] = port_blocked(port);
        struct epoll_event event = {.events = EPOLLIN | (port_blocked(port) ? EPOLLOUT : 0u), .data.u64 = port};
        epoll_ctl(epoll, EPOLL_CTL_MOD, port_fd(port), &event);
    }
}

// SIGTERM and SIGINT become events. A handler could run just before the switch goes to sleep, and leave it asleep.
static int open_signals(void) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    return signalfd(-1, &signals, SFD_CLOEXEC);
}

// until a signal ends it
static void run(int epoll) {
    struct epoll_event events[MAX_EVENTS];
    bool more = false;
    while (true) {
        int64_t wait = more ? 0 : next_event();
        struct timespec timeout = {wait / 1000000000, wait % 1000000000};
        int n = epoll_pwait2(epoll, events, MAX_EVENTS, wait < 0 ? NULL : &timeout, NULL);
        if (n < 0 && errno != EINTR) {
            perror("error: epoll");
            exit(1);
        }
        more = false;
        queues_turn();
        for (int i = 0; i < n; i++) {
            uint64_t who = events[i].data.u64;
            if (who & KIND_SIGNAL) {
                return;
            } else if (who & KIND_CONTROLLER) {
                if (who & KIND_LISTENER) controller_port_accept(epoll, KIND_CONTROLLER);
                else more |= controller_port_read();
            } else if (who & KIND_LISTENER) {
                control_accept(epoll);
            } else if (who & KIND_CLIENT) {
                control_serve((int)(who >> 32), epoll);
            } else {
                if (events[i].events & EPOLLERR) port_failed((unsigned)who);
                if (events[i].events & EPOLLOUT) port_writable((unsigned)who);
                if (events[i].events & EPOLLIN) more |= port_read((unsigned)who);
            }
        }
        if (gate_closed) usleep(CLOSED_PAUSE);  // packets that may not pass make their ports readable all the time
        disorder_deliver();
        more |= pipeline_again();
        more |= queues_drain();
        ports_flush();
        watch_ports(epoll);
    }
}

void switch_init(uint64_t seed) {
    pipeline_init(seed);
    tables_init();
    control_entries(program_entries);
    tables_loaded();
}

int main(int argc, char **argv) {
    static const struct option options[] = {{"commands", 1, 0, 'c'}, {"socket", 1, 0, 's'}, {"seed", 1, 0, 'r'},
                                            {"offline", 1, 0, 'o'}, {"most-copies", 1, 0, 'm'}, {0}};
    const char *commands = NULL, *socket = NULL;
    uint64_t seed = 0, offline = 0, copies = UINT64_MAX;
    int option;
    signal(SIGPIPE, SIG_IGN);
    while ((option = getopt_long(argc, argv, "i:", options, NULL)) != -1) {
        if (option == 'i') add_interface(optarg);
        else if (option == 'c') commands = optarg;
        else if (option == 's') socket = optarg;
        else if (option == 'o' && parse_uint(optarg, MAX_PORTS - 1, &offline)) continue;
        else if (option == 'm' && parse_uint(optarg, UINT32_MAX, &copies)) copies_bound(copies);
        else if (option != 'r' || !parse_uint(optarg, UINT64_MAX, &seed)) usage();
    }
    if (optind != argc) usage();

    switch_init(seed);
    if (commands) control_file(commands);
    if (offline) return offline_run((unsigned)offline, copies == UINT64_MAX);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    watch(epoll, open_signals(), KIND_SIGNAL);
    if (socket) {
        control_open(socket);
        watch(epoll, control_fd(), KIND_LISTENER);
    }
    for (unsigned port = 0; port < MAX_PORTS; port++) {
        if (port_exists(port) && port_fd(port) >= 0) watch(epoll, port_fd(port), port);
    }
    if (controller_port_fd() >= 0) watch(epoll, controller_port_fd(), KIND_CONTROLLER | KIND_LISTENER);
    puts("ready");
    fflush(stdout);
    run(epoll);
    return 0;
}
