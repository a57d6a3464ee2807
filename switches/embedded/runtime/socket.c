// The switch's sockets in the file system: a place is claimed from nobody who lives, and given back.
#define _GNU_SOURCE
#include "runtime.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define LOCK_TRIES 100
#define LOCK_WAIT_US 20000

#define MOST_SOCKETS 2  // for commands, and for a controller's packets

static struct claimed { struct sockaddr_un address; struct stat made; } sockets[MOST_SOCKETS];
static unsigned count;
static struct sockaddr_un address = {.sun_family = AF_UNIX};  // of the socket being claimed

static void refuse(const char *reason) {
    fprintf(stderr, "error: cannot listen on %s: %s\n", address.sun_path, reason);
    exit(1);
}

// two switches that find the same dead socket must not remove each other's new one: the folder is locked meanwhile
static int lock_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    char folder[sizeof address.sun_path] = ".";
    if (slash) snprintf(folder, sizeof folder, "%.*s", (int)(slash == path ? 1 : slash - path), path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), tries = 0;
    if (fd < 0) refuse(strerror(errno));
    while (flock(fd, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK || ++tries == LOCK_TRIES) refuse("another process keeps its folder locked");
        usleep(LOCK_WAIT_US);
    }
    return fd;
}

static bool answers(int type) {
    int probe = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool dead = probe >= 0 && connect(probe, (struct sockaddr *)&address, sizeof address) && errno == ECONNREFUSED;
    close(probe);
    return !dead;
}

static void remove_dead(int type) {
    struct stat found;
    if (lstat(address.sun_path, &found)) {
        if (errno != ENOENT) refuse(strerror(errno));
        return;
    }
    if (!S_ISSOCK(found.st_mode)) refuse("there is a file that is no socket; choose another path, or remove the file");
    if (found.st_uid != geteuid()) refuse("there is a socket of another user; choose another path");
    if (answers(type)) refuse("a process listens there already; choose another path or name, or end that process");
    if (unlink(address.sun_path)) refuse(strerror(errno));
}

static void release(void) {
    struct stat found;
    for (struct claimed *c = sockets; c < sockets + count; c++)
        if (!lstat(c->address.sun_path, &found) && found.st_ino == c->made.st_ino && found.st_dev == c->made.st_dev)
            unlink(c->address.sun_path);
}

int socket_claim(const char *path, int type, int backlog) {
    if (!*path || strlen(path) >= sizeof address.sun_path) {
        fprintf(stderr, "error: the socket's path must have 1 to %zu characters: %s\n", sizeof address.sun_path - 1, path);
        exit(1);
    }
    strcpy(address.sun_path, path);
    struct claimed *claimed = &sockets[count];
    int lock = lock_folder(path), listener = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    remove_dead(type);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) || lstat(path, &claimed->made) ||
        listen(listener, backlog))
        refuse(strerror(errno));
    close(lock);
    claimed->address = address;
    if (!count++) atexit(release);
    return listener;
}
