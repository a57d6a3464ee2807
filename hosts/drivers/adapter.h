/* A network interface for RDMA in a thread of its own (adapter.c). */
#pragma once

#include "../roce/reliable.h"

/* A queue pair's descriptors, -1 once they are not used any more: of the host's program, of the connection by which both ends met,
   which is the program's to close, and of UDP. */
typedef struct {
    int32_t program, manager, sender, receiver;
    int32_t unsent;  /* bytes that are taken from the program and not sent, at most */
    bool closed;     /* the program has closed its end, and takes nothing any more */
    bool program_ended, told, other_ended, other_gone; /* told: the other end, of the end of what this one sends */
} AdapterLink;

int32_t adapter_run(RoceAdapter *, AdapterLink *, int32_t wake);
