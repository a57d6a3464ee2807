/* The SwitchML packet as bytes, the same that p4/include/switchml/headers.p4 describes; numbers are big-endian. */
#pragma once

#include <stdint.h>

enum switchml_kind { SWITCHML_UPDATE = 1, SWITCHML_RESULT, SWITCHML_QUERY, SWITCHML_STATUS, SWITCHML_CONNECT };

enum switchml_mark { SWITCHML_AGAIN = 1, SWITCHML_INSISTS }; /* of an update, result or query; the latter of a query */

typedef struct {
    uint8_t job, worker, kind, version;
    uint16_t slot;
    uint8_t exponent, mark;
    uint32_t epoch, chunk;
} SwitchmlHeader; /* k integers follow it */

typedef struct {
    SwitchmlHeader header;
    uint32_t tag;
} SwitchmlBare; /* of a round that goes ahead */

typedef struct {
    uint8_t flow, reserved;
    uint16_t owner;
} SwitchmlPart; /* behind the vector or the tag of a chunk that has an owner */

typedef struct {
    SwitchmlHeader header;
    uint32_t seen;
} SwitchmlStatus;
