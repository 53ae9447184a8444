// Idea: everything that changes from one training step to the next is in device memory, so the host only launches the same graph again.
// Formula: indices = order[position..], found |= halted or loss not finite, PyTorch's GradScaler update, then the counters advance.
// Since the last rung: not a rung; the control of a captured training step. Counters u32 [4] are position, step, slot, halted.
// Needs: n at most count; position and slot wrap around in their rings; an index without a sample gets label 255, which makes the loss NaN.
// Expect: launches of one block, bound by latency; the host reads the rings only once every many steps.
#include "launch.cuh"
#include "nn/step.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
start_step(const unsigned* __restrict__ counters /* [4] */, const double* __restrict__ rates /* [slots] */,
           double* __restrict__ control /* [2] or null */, const unsigned* __restrict__ order /* [count] */, unsigned count, unsigned first,
           const unsigned char* __restrict__ labels /* [samples] or null */, unsigned samples, unsigned n,
           unsigned* __restrict__ indices /* [n] */, unsigned char* __restrict__ batch_labels /* [n] or null */,
           const float* __restrict__ running /* [statistics] or null */, float* __restrict__ before /* [statistics] or null */,
           unsigned statistics) {
    wait_for_predecessor();
    let_successor_start();
    const unsigned i = blockIdx.x * THREADS + threadIdx.x, slot = counters[SLOT];
    if (i == 0 && control) control[0] = rates[slot];
    // The forward pass changes running statistics before the loss is known, so the statistics before the first broken step are kept.
    if (running && !counters[HALTED]) {
        for (unsigned k = i; k < statistics; k += gridDim.x * THREADS) before[k] = running[k];
    }
    if (i >= n) return;
    // If the batch is split into parts, this part begins `first` samples after the start of the batch.
    const unsigned at = counters[POSITION] + first + i, index = order[at < count ? at : at - count];
    indices[i] = index;
    if (labels) batch_labels[i] = index < samples ? labels[index] : 255;
}

// Computes the loss of a batch from the losses of its parts, weighted by samples. Part i starts at sample n i / parts, as in the host's split.
extern "C" __global__ void __launch_bounds__(THREADS)
loss_of_parts(const unsigned* __restrict__ counters /* [4] */, const double* __restrict__ part_losses /* [parts] */,
              const unsigned* __restrict__ part_correct /* [parts] */, unsigned parts, unsigned n, double* __restrict__ losses /* [slots] */,
              unsigned* __restrict__ correct /* [slots] */) {
    wait_for_predecessor();
    let_successor_start();
    if (threadIdx.x != 0) return;
    double sum = 0.0;
    unsigned hits = 0;
    for (unsigned i = 0; i < parts; ++i) {
        const unsigned samples = (unsigned)((unsigned long long)n * (i + 1) / parts - (unsigned long long)n * i / parts);
        sum += part_losses[i] * samples, hits += part_correct[i];
    }
    losses[counters[SLOT]] = sum / n, correct[counters[SLOT]] = hits;
}

extern "C" __global__ void __launch_bounds__(THREADS)
judge_step(unsigned* __restrict__ counters /* [4] */, const double* __restrict__ losses /* [slots] */, const unsigned* __restrict__ overflow /* [1] or null */,
           unsigned* __restrict__ found /* [1] */) {
    wait_for_predecessor();
    let_successor_start();
    if (threadIdx.x == 0) judge(counters, losses, overflow, found);
}

extern "C" __global__ void __launch_bounds__(THREADS)
finish_step(End end) {
    wait_for_predecessor();
    let_successor_start();
    if (threadIdx.x == 0) finish(end);
}
