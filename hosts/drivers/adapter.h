/* A network interface for RDMA in a thread of its own (adapter.c). */
#pragma once

#include "../roce/reliable.h"

/* A queue pair's descriptors, -1 once they are closed: of the host's program, of the connection by which both ends met, and of UDP. */
typedef struct {
    int32_t program, manager, sender, receiver;
    int32_t unsent;  /* bytes that are taken from the program and not sent, at most */
    bool program_ended, told, other_ended;
} AdapterLink;

int32_t adapter_run(RoceAdapter *, AdapterLink *, int32_t wake, bool *over);
