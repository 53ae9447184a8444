// Idea: one column of blocks per image; each draws its crop once, and looks up normalised bytes in a table instead of dividing.
// Formula: out[b] = values[c][images[indices[b]][c][y'][x']], cropped and mirrored by Philox block [b, 0, 0x61756772, *step] or as set in ops/augment.
// Since the last rung: not a rung; gather, normalisation, crop and flip in one pass over the batch.
// Needs: images u8 [count][c][h][w]; out of type IN [batch][h][w][c], or [batch][c][h][w] with CHANNELS_FIRST; h and w below 2^30.
// Expect: the batch is written at DRAM bandwidth; an index without an image gives NaN.
#include "launch.cuh"
#include "nn/elements.cuh"
#include "nn/philox.cuh"

// The ways to mirror images. The values are those in crates/warpbook-nn/src/ops/augment/cuda.rs.
#define FLIP_RANDOM 1
#define FLIP_ALL 2
#define FLIP_ALTERNATING 3

// Reflection padding: returns the index of the pixel that appears at position `at` of a row or column of `size` pixels.
__device__ __forceinline__ unsigned reflected(int at, int size) {
    return (unsigned)(at < 0 ? -at : at >= size ? 2 * size - 2 - at : at);
}

extern "C" __global__ void __launch_bounds__(THREADS)
gather(const unsigned char* __restrict__ images /* [count][channels][h][w] */, unsigned count, unsigned channels, unsigned h,
       unsigned w, const unsigned* __restrict__ indices /* [gridDim.x] */, const float* __restrict__ values /* [channels][256] */,
       unsigned padding, unsigned flip, unsigned long long seed, const unsigned* __restrict__ step /* [1] */, unsigned reflect,
       unsigned steps_per_epoch, unsigned drawn, unsigned fixed_row, unsigned fixed_column, unsigned first /* place of the first image in its batch */,
       In* __restrict__ out /* [gridDim.x][h][w][channels], or channels first */) {
    wait_for_predecessor();
    let_successor_start();
    const unsigned slot = blockIdx.x, index = indices[slot], pixels = h * w, len = channels * pixels;
    const Words words = philox(seed, Words{{first + slot, 0u, 0x61756772u, *step}});
    const unsigned long long places = 2ull * padding + 1;
    const unsigned row = drawn ? (unsigned)(words.w[0] * places >> 32) : fixed_row;
    const unsigned column = drawn ? (unsigned)(words.w[1] * places >> 32) : fixed_column;
    bool mirrored = flip == FLIP_ALL || (flip == FLIP_RANDOM && words.w[2] >> 31);
    if (flip == FLIP_ALTERNATING)
        mirrored = (philox(seed, Words{{index, 1u, 0x61756772u, 0u}}).w[0] >> 31 ^ *step / steps_per_epoch) & 1;
    const unsigned char* image = images + (size_t)index * len;
    // The blocks of an image interleave their bytes, and each thread has several loads in flight.
#pragma unroll 4
    for (unsigned i = blockIdx.y * THREADS + threadIdx.x; i < len; i += gridDim.y * THREADS) {
#if CHANNELS_FIRST
        const unsigned channel = i / pixels, pixel = i % pixels;
#else
        const unsigned channel = i % channels, pixel = i / channels;
#endif
        const unsigned x = pixel % w, y = pixel / w;
        // Above the image and to its left, the subtraction wraps around to a large number.
        unsigned from_y = y + row - padding, from_x = (mirrored ? w - 1 - x : x) + column - padding;
        if (reflect) from_y = reflected((int)from_y, (int)h), from_x = reflected((int)from_x, (int)w);
        const bool inside = from_y < h && from_x < w;
        float value = __int_as_float(0x7fffffff);
        if (index < count) {
            const unsigned byte = inside ? image[(size_t)channel * pixels + (size_t)from_y * w + from_x] : 0u;
            value = values[channel * 256 + byte];
        }
        out[(size_t)slot * len + i] = from_float<In>(value);
    }
}
