// Idea: blocks of one cluster reach each other's shared memory, which is much nearer than L2.
// Formula: as 06_on_chip; each warp sends its sums to slots[2][blocks][warps] of every block, itself included; f32[n].
// Since the last rung: the exchange of 06_on_chip goes through distributed shared memory, and no thread waits for its block.
// Needs: compute capability 9.0; points that fit into the multiprocessors of one cluster; x and y 16-byte aligned.
// Expect: 8 or 16 multiprocessors compute and the others idle, which is faster as long as the exchange is most of an epoch.
#include "cluster.cuh"
#include "regression/resident.cuh"

constexpr int WARPS = THREADS / WARP;
static_assert(BLOCKS * WARPS % WARP == 0 && BLOCKS <= WARP, "a warp reads the slots in whole rows, a lane sends to each block");

extern "C" __global__ void __launch_bounds__(THREADS, 1)
descend_in_cluster(const float* __restrict__ x /* [n] */, const float* __restrict__ y /* [n] */, unsigned long long n,
                   unsigned epochs, unsigned log_every, float learning_rate, float inverse_n,
                   float* weights /* [2]: w, b */, float* losses /* [epochs / log_every] */) {
    MARK_BEGIN(descend_in_cluster);
    // Odd and even epochs alternate, since a warp may be one epoch ahead of other warps.
    __shared__ __align__(16) float4 slots[2][BLOCKS * WARPS];
    __shared__ __align__(8) unsigned long long barriers[2];
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, rank = cluster_rank();
    if (threadIdx.x == 0) barrier_init(&barriers[0], 1), barrier_init(&barriers[1], 1), barrier_init_done();
    MARK(load);
    Resident points(x, y, (unsigned)n);
    float w = weights[0], b = weights[1];
    const float rate = learning_rate * 2.0f * inverse_n;
    LossLog log(log_every);
    // Each lane serves one block: `to` is the address of this warp's slot in that block, and `signal` the address of a barrier there.
    const unsigned to = address_in(lane % BLOCKS, &slots[0][rank * WARPS + warp]), signal = address_in(lane % BLOCKS, &barriers[0]);
    MARK(barrier);
    cluster_sync();

    for (unsigned epoch = 1; epoch <= epochs; ++epoch) {
        const unsigned turn = epoch & 1, phase = (epoch - 1) / 2 & 1;
        const bool logged = log.next();
        // One arrival per phase suffices, since the wait is for bytes. The bytes may arrive before they are announced.
        if (threadIdx.x == 0) barrier_arrive_and_expect(&barriers[turn], sizeof slots[turn]);
        float sums[SUMS];
        MARK(compute);
        points.pass(w, b, logged, sums);
        MARK(exchange);

        float mine = warp_sum_pair(sums[GRAD_W], sums[GRAD_B]), other = __shfl_xor_sync(ALL_LANES, mine, WARP / 2);
        float loss[1] = {sums[LOSS]};
        if (logged) warp_sum(loss);
        // After the exchange above between the halves of the warp, every lane has both sums.
        const bool lower = lane < WARP / 2;
        if (lane < BLOCKS) {
            store_and_signal(to + turn * sizeof slots[0],
                             make_float4(lower ? mine : other, lower ? other : mine, loss[0], 0.0f),
                             signal + turn * sizeof barriers[0]);
        }
        MARK(barrier);
        barrier_wait(&barriers[turn], phase);
        MARK(reduce);

        // Every warp adds up the sums of all warps itself, in the same order.
        float grad_w = 0.0f, grad_b = 0.0f, total[1] = {0.0f};
#pragma unroll
        for (unsigned i = 0; i < BLOCKS * WARPS; i += WARP) {
            const float4 got = slots[turn][i + lane];
            grad_w += got.x, grad_b += got.y, total[0] += got.z;
        }
        mine = warp_sum_pair(grad_w, grad_b), other = __shfl_xor_sync(ALL_LANES, mine, WARP / 2);
        w -= rate * (lower ? mine : other), b -= rate * (lower ? other : mine);
        if (logged && rank == 0 && warp == 0) {
            warp_sum(total);
            if (lane == 0) losses[log.entries - 1] = total[0] * inverse_n;
        }
    }
    MARK(finish);
    if (rank == 0 && threadIdx.x == 0) weights[0] = w, weights[1] = b;
    // No block may exit while others can still write into its shared memory.
    cluster_sync();
    MARK(end);
}
