// Points that stay on the chip, in a thread's registers and in its block's shared memory.
#pragma once
#include "regression/descent.cuh"

extern __shared__ float4 resident_shared[];  // [groups per thread that do not fit in registers][2: x, y][THREADS]

struct Resident {
    float4 x[REGISTER_GROUPS > 0 ? REGISTER_GROUPS : 1], y[REGISTER_GROUPS > 0 ? REGISTER_GROUPS : 1];
    unsigned in_shared;         // groups of four points that this thread keeps in shared memory
    const float *odd_x, *odd_y;  // the up to three points after the last whole group, which the first threads read from memory
    unsigned odd;

    __device__ __forceinline__ Resident(const float* __restrict__ all_x /* [n] */, const float* __restrict__ all_y /* [n] */,
                                        unsigned n) {
        const unsigned thread = blockIdx.x * THREADS + threadIdx.x, threads = gridDim.x * THREADS, groups = n / 4;
        const float4* x4 = reinterpret_cast<const float4*>(all_x);
        const float4* y4 = reinterpret_cast<const float4*>(all_y);
        // Every thread has REGISTER_GROUPS groups, since the host would otherwise have chosen a smaller number.
#pragma unroll
        for (int g = 0; g < REGISTER_GROUPS; ++g) x[g] = x4[thread + g * threads], y[g] = y4[thread + g * threads];
        in_shared = 0;
        for (unsigned i = thread + REGISTER_GROUPS * threads; i < groups; i += threads, ++in_shared) {
            resident_shared[(in_shared * 2 + 0) * THREADS + threadIdx.x] = x4[i];
            resident_shared[(in_shared * 2 + 1) * THREADS + threadIdx.x] = y4[i];
        }
        odd_x = all_x + groups * 4, odd_y = all_y + groups * 4, odd = n % 4;
    }

    // Computes one epoch's sums over the thread's points; the loss is added up only on request.
    __device__ __forceinline__ void pass(float w, float b, bool with_loss, float (&sums)[SUMS]) const {
        if (with_loss) pass<true>(w, b, sums);
        else pass<false>(w, b, sums);
    }

    template <bool WITH_LOSS>
    __device__ __forceinline__ void pass(float w, float b, float (&sums)[SUMS]) const {
        PointSums<WITH_LOSS> points(w, b);
        const unsigned thread = blockIdx.x * THREADS + threadIdx.x;
        if (thread < odd) points.add(0, odd_x[thread], odd_y[thread]);
        // A thread reads only what it wrote itself, so this needs no barrier.
#pragma unroll 2
        for (unsigned s = 0; s < in_shared; ++s) {
            points.add(resident_shared[(s * 2 + 0) * THREADS + threadIdx.x],
                       resident_shared[(s * 2 + 1) * THREADS + threadIdx.x]);
        }
#pragma unroll
        for (int g = 0; g < REGISTER_GROUPS; ++g) points.add(x[g], y[g]);
        points.total(sums);
    }
};
