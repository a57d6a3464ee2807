/* What the sources of SwitchML's worker share, and Python does not see. */
#pragma once

#include "../stream/inside.h"
#include "core.h"
#include "wire.h"

/* Where the exponents of a packet are: those of several blocks precede it. */
static inline uint8_t *exponents(const SwitchML *w, SwitchmlHeader *packet) {
    return w->blocks == 1 ? &packet->exponent : (uint8_t *)packet - w->blocks;
}

void switchml_init(
    SwitchML *, const Scheme *, int32_t slots, int32_t k, int32_t recovery, const Datagrams *packets, int32_t packet_bytes);
void switchml_release(SwitchML *);
void switchml_mark_again(Stream *, const int32_t *rows, int count);
void switchml_ask(Stream *, const int32_t *rows, const bool *again, int count, bool urgent);
