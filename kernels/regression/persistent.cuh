// Code shared by the kernels that run all epochs in one launch: how an epoch ends, and how the descent ends.
#pragma once
#include "exchange.cuh"
#include "regression/descent.cuh"

// A block's state of the descent. Every block computes the same steps, bit for bit, from the same sums.
template <int BLOCK>
struct Descent {
    static constexpr int WARPS = BLOCK / WARP;
    static_assert(WARPS >= 2 && WARPS <= WARP, "one warp collects, another adds up the losses");

    struct Shared {
        float2 gradients[BLOCK];
        float losses[WARPS];
        float weights[2];
        bool given_up;
    };

    Shared& shared;
    PairExchange exchange;
    float rate;            // learning rate x 2 / n
    LossLog log;
    float* loss_partial;   // [epochs / log_every][blocks]
    float w, b;

    __device__ __forceinline__ Descent(Shared& shared, PairExchange exchange, const float* weights /* [2] */, float rate,
                                       unsigned log_every, float* loss_partial)
        : shared(shared), exchange(exchange), rate(rate), log(log_every), loss_partial(loss_partial),
          w(weights[0]), b(weights[1]) {
        if (threadIdx.x == 0) shared.given_up = false, shared.weights[0] = w, shared.weights[1] = b;
        __syncthreads();
    }

    // Updates the weights from all threads' sums at the end of an epoch, counted from 1. Returns false if another block did not arrive in time.
    __device__ __forceinline__ bool step(unsigned epoch, bool logged, const float (&sums)[SUMS]) {
        const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        MARK(reduce);
        // One warp adds up all threads' sums: shuffling in every warp first would take twice as long.
        shared.gradients[threadIdx.x] = make_float2(sums[GRAD_W], sums[GRAD_B]);
        if (logged) {
            float loss[1] = {sums[LOSS]};
            warp_sum(loss);
            if (lane == 0) shared.losses[warp] = loss[0];
        }
        MARK(barrier);
        __syncthreads();
        if (warp == 0) {
            MARK(exchange);
            float2 column = shared.gradients[lane];
#pragma unroll
            for (int k = 1; k < WARPS; ++k) {
                const float2 next = shared.gradients[k * WARP + lane];
                column.x += next.x, column.y += next.y;
            }
            exchange.publish(epoch, warp_sum_pair(column.x, column.y));
            float of_all = 0.0f;
            if (!exchange.collect(epoch, of_all)) shared.given_up = true;
            // The lower half of the lanes has the gradient of w, the upper half the gradient of b.
            if (lane % (WARP / 2) == 0) shared.weights[lane / (WARP / 2)] = (lane == 0 ? w : b) - rate * of_all;
        } else if (warp == 1 && logged) {
            // Adds up the losses while the first warp waits, since they are needed only at the end.
            float loss[1] = {lane < WARPS ? shared.losses[lane] : 0.0f};
            warp_sum(loss);
            if (lane == 0) loss_partial[(log.entries - 1) * exchange.blocks + blockIdx.x] = loss[0];
        }
        MARK(wait);
        __syncthreads();
        w = shared.weights[0], b = shared.weights[1];
        return !shared.given_up;
    }

    // In block 0, writes the weights and the losses once all blocks' losses have arrived.
    __device__ __forceinline__ void finish(unsigned epochs, float inverse_n, float* weights /* [2] */,
                                           float* losses /* [epochs / log_every] */) {
        const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        const unsigned last = epochs + 1;
        if (warp == 0) {
            // Makes this block's losses visible before the word that announces them.
            __threadfence();
            exchange.publish(last, 0.0f);
        }
        if (blockIdx.x != 0) return;
        if (warp == 0) {
            float none;
            if (!exchange.collect(last, none)) shared.given_up = true;
            __threadfence();
        }
        __syncthreads();
        if (shared.given_up) return;
        for (unsigned k = warp; k < log.entries; k += WARPS) {
            float loss[1] = {0.0f};
            for (unsigned block = lane; block < exchange.blocks; block += WARP) {
                loss[0] += __ldcg(loss_partial + k * exchange.blocks + block);
            }
            warp_sum(loss);
            if (lane == 0) losses[k] = loss[0] * inverse_n;
        }
        if (threadIdx.x == 0) {
            weights[0] = w, weights[1] = b;
            // All blocks have read the round by now, since no block publishes before that read.
            exchange.control->round = exchange.base + last;
        }
    }
};
