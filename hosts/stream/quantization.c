/* Block floating point (SwitchML, section 3.7): floats as int32 with one exponent for each chunk of k.

   For a chunk with max|x| < 2^e over all n workers the scale is (2^31 - 1) / (n * 2^e), so that the sum of n workers cannot
   overflow. Exponents travel as one unsigned byte whose order is that of the exponents, because the switch takes the maximum of
   bytes:

       0           every value is zero
       1 ... 253   e = code - 125, that is -124 ... 128; smaller e count as -124, where float32's denormals still keep
                   2^-149 * 2^124 * 2^31 / n = 64 / n steps each
       254         some value is NaN or infinite: the chunk is summed as floats
       255         of a chunk that some worker does not have yet: there is no exponent

   Vectors are in the network's byte order. */
#include "quantization.h"

#include "inside.h"

/* The factor of a chunk by its exponent code; 0 for chunks that carry no numbers (all zero, not finite). */
double scale_of(uint8_t code, int32_t workers) {
    return code == CODE_ZERO || code == CODE_NOT_FINITE ? 0 : LARGEST_INTEGER / workers * exp2(-(code - (double)BIAS));
}

/* What an integer 1 is worth; 0 for chunks that carry no integers. */
double step_of(uint8_t code, int32_t workers) {
    double scale = scale_of(code, workers);
    return scale > 0 ? 1 / scale : 0;
}

/* The exponent code of a chunk. */
uint8_t block_exponent(const float *chunk, int64_t count) {
    uint32_t largest = 0; /* as bits: without their sign these are in the order of the floats, infinity and then NaN at the end */
    for (int64_t e = 0; e < count; e++) {
        uint32_t bits;
        memcpy(&bits, chunk + e, sizeof bits);
        bits &= 0x7FFFFFFF;
        largest = bits > largest ? bits : largest;
    }
    if (largest == 0)
        return CODE_ZERO;
    if (largest >= 0x7F800000)
        return CODE_NOT_FINITE;
    int code = (int)(largest >> 23) - 126 + BIAS; /* 2^(biased - 127) <= largest < 2^(biased - 126) */
    return code < 1 ? 1 : code > CODE_NOT_FINITE - 1 ? CODE_NOT_FINITE - 1 : code;
}

/* A chunk's floats as integers, rounded to nearest (ties to even). */
void quantize(const float *chunk, int64_t count, double scale, uint32_t *vector, int64_t k) {
    memset(vector, 0, k * sizeof *vector);
    if (scale == 0)
        return;
    for (int64_t e = 0; e < count; e++)
        vector[e] = big((uint32_t)(int32_t)rint((double)chunk[e] * scale));
}

/* A chunk's sums over all workers as floats; the same bits on every worker that has the same sums and exponent. */
void dequantize(const uint32_t *vector, double step, float *chunk, int64_t count) {
    for (int64_t e = 0; e < count; e++)
        chunk[e] = (float)((double)(int32_t)big(vector[e]) * step);
}
