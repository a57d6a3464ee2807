/* Block floating point (quantization.c). */
#pragma once

#include <stdint.h>

/* What is no exponent: every value is zero; some value is NaN or infinite; some worker does not have the chunk yet. */
enum exponent_code { CODE_ZERO = 0, CODE_NOT_FINITE = 254, CODE_UNKNOWN = 255 };

enum exponent_bias { BIAS = 125 };

double scale_of(uint8_t code, int32_t workers);
double step_of(uint8_t code, int32_t workers);
uint8_t block_exponent(const float *chunk, int64_t count);
void quantize(const float *chunk, int64_t count, double scale, uint32_t *vector, int64_t k);
void dequantize(const uint32_t *vector, double step, float *chunk, int64_t count);
