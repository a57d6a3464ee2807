// The control socket's place in the file system: claimed from nobody who lives, and given back.
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

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static struct stat made;

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

static bool answers(void) {
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool dead = probe >= 0 && connect(probe, (struct sockaddr *)&address, sizeof address) && errno == ECONNREFUSED;
    close(probe);
    return !dead;
}

static void remove_dead(void) {
    struct stat found;
    if (lstat(address.sun_path, &found)) {
        if (errno != ENOENT) refuse(strerror(errno));
        return;
    }
    if (!S_ISSOCK(found.st_mode)) refuse("there is a file that is no socket; choose another path, or remove the file");
    if (found.st_uid != geteuid()) refuse("there is a socket of another user; choose another path");
    if (answers()) refuse("a process listens there already; choose another path or name, or end that process");
    if (unlink(address.sun_path)) refuse(strerror(errno));
}

int socket_claim(const char *path, int backlog) {
    if (!*path || strlen(path) >= sizeof address.sun_path) {
        fprintf(stderr, "error: the socket's path must have 1 to %zu characters: %s\n", sizeof address.sun_path - 1, path);
        exit(1);
    }
    strcpy(address.sun_path, path);
    int lock = lock_folder(path), listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    remove_dead();
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) || lstat(path, &made) || listen(listener, backlog))
        refuse(strerror(errno));
    close(lock);
    return listener;
}

void socket_release(void) {
    struct stat found;
    if (made.st_ino && !lstat(address.sun_path, &found) && found.st_ino == made.st_ino && found.st_dev == made.st_dev)
        unlink(address.sun_path);
}
