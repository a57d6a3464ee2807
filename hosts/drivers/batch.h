/* Datagrams of a UDP socket, many a system call (batch.c). */
#pragma once

#include "../stream/core.h"

typedef struct Batch Batch;

enum driven { DRIVEN, DRIVE_INTERRUPTED };

Batch *batch_new(int32_t descriptor, const Datagrams *sender, const Datagrams *receiver, int32_t bytes);
void batch_peers(Batch *, const uint8_t *addresses, const uint16_t *ports, int32_t count, bool connected);
void batch_free(Batch *);
int64_t batch_send(Batch *, const int64_t *rows, int64_t count, int32_t length, int32_t together, int32_t peer);
int64_t batch_receive(Batch *, uint32_t *lengths);
void batch_set_urgent(Batch *, bool urgent);
int64_t batch_drive(Batch *, Stream *, uint32_t *lengths, int32_t together, double until, int32_t interrupt);
