// Idea: the fastest way to read something again is not to drop it: the points stay in registers and shared memory.
// Formula: as 05_persistent; thread t of T has the groups of four points t, t + T, ...: REGISTER_GROUPS in registers, the rest in shared memory.
// Since the last rung: the points are read from memory once in total, instead of once per epoch.
// Needs: n / 4 >= REGISTER_GROUPS x threads, and shared memory for the rest; x and y 16-byte aligned; all blocks resident at once.
// Expect: 7 M training points on 132 multiprocessors; an epoch takes 4 instructions per point on 128 lanes per multiprocessor, plus the exchange.
#include "regression/resident.cuh"
#include "regression/persistent.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1)
descend(const float* __restrict__ x /* [n] */, const float* __restrict__ y /* [n] */, unsigned long long n,
        unsigned epochs, unsigned log_every, float learning_rate, float inverse_n, float* weights /* [2]: w, b */,
        float* losses /* [epochs / log_every] */, float* loss_partial /* [epochs / log_every][blocks] */,
        unsigned long long* words /* [2][blocks][SLOT_WORDS] */, Control* control, unsigned blocks, unsigned long long limit_ns) {
    MARK_BEGIN(descend);
    __shared__ Descent<THREADS>::Shared shared;
    MARK(load);
    Resident points(x, y, (unsigned)n);
    Descent<THREADS> descent(shared, PairExchange(words, control, blocks, limit_ns), weights,
                             learning_rate * 2.0f * inverse_n, log_every, loss_partial);
    for (unsigned epoch = 1; epoch <= epochs; ++epoch) {
        float sums[SUMS];
        const bool logged = descent.log.next();
        MARK(compute);
        points.pass(descent.w, descent.b, logged, sums);
        if (!descent.step(epoch, logged, sums)) return;
    }
    MARK(finish);
    descent.finish(epochs, inverse_n, weights, losses);
    MARK(end);
}
