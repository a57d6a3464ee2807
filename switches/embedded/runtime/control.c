// Commands as simple_switch_CLI takes them, from a file before packets flow and from a socket while they do.
// On the socket a client sends lines; each is answered by "ok LENGTH\n" or "error LENGTH\n" and LENGTH bytes.
#define _GNU_SOURCE
#include "runtime.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define MAX_WORDS 600  // a node of all ports has 513
#define MAX_LINE 16384
#define MAX_CLIENTS 64

struct client { int fd; size_t length; char line[MAX_LINE]; };
static struct client *clients[MAX_CLIENTS];
static int listener = -1;
int control_client = -1;

static void reset_state(int argc, char **argv, struct reply *reply) {  // as BMv2: mirroring sessions and queues stay as they are
    (void)argc, (void)argv, (void)reply;
    tables_reset();
    action_profiles_reset();
    state_reset();
    value_sets_reset();
    meters_reset();
    digests_reset();
    replication_reset();
    disorder_reset();
}

const struct command control_commands[] = {{"reset_state", 1, 1, reset_state, ""}, {0}};

void control_execute(char *line, struct reply *reply) {
    char *words[MAX_WORDS];
    int count = 0;
    for (char *rest = line, *word; (word = strsep(&rest, " \t\r\n"));) {
        if (!*word) continue;
        if (*word == '#') break;
        if (count == MAX_WORDS) return fail(reply, "a command of more than %d words", MAX_WORDS);
        words[count++] = word;
    }
    if (!count) return;
    const struct command *command = find_command(words[0]);
    if (!command) return refuse_command(words[0], reply);
    if (count < command->least || count > command->most) return fail(reply, "usage: %s %s", command->name, command->usage);
    command->handle(count, words, reply);
}

void control_entries(const char *const *commands) {
    for (; *commands; commands++) {
        struct reply reply = {0};
        char *line = strdup(*commands);
        if (!line) abort();
        control_execute(line, &reply);
        if (reply.failed) {
            fprintf(stderr, "error: an entry of the program: %s\n", reply.text);
            exit(1);
        }
        free(reply.text);
        free(line);
    }
}

void control_file(const char *path) {
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    if (!file) {
        fprintf(stderr, "error: cannot read %s: %s\n", path, strerror(errno));
        exit(1);
    }
    for (int number = 1; getline(&line, &room, file) >= 0; number++) {
        struct reply reply = {0};
        control_execute(line, &reply);
        if (reply.failed) {
            fprintf(stderr, "%s:%d: error: %s\n", path, number, reply.text);
            exit(1);
        }
        free(reply.text);
    }
    free(line);
    fclose(file);
}

void control_open(const char *path) {
    listener = socket_claim(path, SOCK_STREAM, MAX_CLIENTS);
}

int control_fd(void) { return listener; }

void control_accept(int epoll) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    struct timeval patience = {.tv_sec = 2};
    unsigned slot = 0;
    if (fd < 0) return;
    while (slot < MAX_CLIENTS && clients[slot]) slot++;
    if (slot == MAX_CLIENTS || !(clients[slot] = calloc(1, sizeof **clients))) {
        close(fd);
        return;
    }
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    clients[slot]->fd = fd;
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)fd << 32 | 0x10000};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static bool write_all(int fd, const char *text, size_t length) {
    while (length) {
        ssize_t n = send(fd, text, length, MSG_NOSIGNAL);
        if (n <= 0) return false;
        text += n;
        length -= (size_t)n;
    }
    return true;
}

static bool answer(struct client *client, char *line) {
    struct reply reply = {0};
    char head[48];
    control_client = client->fd;
    control_execute(line, &reply);
    int n = snprintf(head, sizeof head, "%s %zu\n", reply.failed ? "error" : "ok", reply.length);
    bool sent = write_all(client->fd, head, (size_t)n) && write_all(client->fd, reply.text, reply.length);
    free(reply.text);
    return sent;
}

void control_serve(int fd, int epoll) {
    unsigned slot = 0;
    while (slot < MAX_CLIENTS && !(clients[slot] && clients[slot]->fd == fd)) slot++;
    if (slot == MAX_CLIENTS) return;
    struct client *client = clients[slot];
    ssize_t n = recv(fd, client->line + client->length, MAX_LINE - 1 - client->length, MSG_DONTWAIT);
    bool open = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
    if (n > 0) client->length += (size_t)n;
    char *end;
    while (open && (end = memchr(client->line, '\n', client->length))) {
        *end = '\0';
        open = answer(client, client->line);
        client->length -= (size_t)(end + 1 - client->line);
        memmove(client->line, end + 1, client->length);
    }
    if (!open || client->length == MAX_LINE - 1) {
        epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
        gate_left(fd);
        close(fd);
        free(client);
        clients[slot] = NULL;
    }
}
