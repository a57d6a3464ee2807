/* What the sources of SwitchML's worker share, and Python does not see. */
#pragma once

#include "../stream/inside.h"
#include "core.h"
#include "wire.h"

void switchml_init(
    SwitchML *, const Scheme *, int32_t slots, int32_t k, int32_t recovery, const Datagrams *packets, int32_t packet_bytes);
void switchml_release(SwitchML *);
void switchml_mark_again(Stream *, const int32_t *rows, int count);
void switchml_ask(Stream *, const int32_t *rows, const bool *again, int count, bool urgent);
