// Idea: with several weights a point's features are also read only once, though its error and each gradient need all of them.
// Formula: err = b + sum_j w_j x[j][i] - y[i]; w_j -= lr 2/n sum_i err x[j][i]; b -= lr 2/n sum_i err; f32, x[FEATURES][pitch].
// Since the last rung: 05_persistent with FEATURES_PER_THREAD features per thread; more features are split over warps, which exchange sums in shared memory.
// Needs: rows of x 16-byte aligned with finite numbers up to a multiple of four; 1 to 256 features; all blocks resident at once.
// Expect: 4 operations for the 4 bytes of a feature: memory is the limit by far, and tensor cores could not change that.
#include "exchange.cuh"
#include "regression/descent.cuh"

static_assert(FEATURES >= 1 && FEATURES <= 256, "one word of the exchange for each weight, by one thread");
constexpr int WARPS = THREADS / WARP;

__device__ constexpr int power_of_two_from(int v) { return v <= 1 ? 1 : 2 * power_of_two_from((v + 1) / 2); }
// Number of warps that share the same points, each with PART of their features.
constexpr int SPLIT = power_of_two_from((FEATURES + FEATURES_PER_THREAD - 1) / FEATURES_PER_THREAD);
static_assert(WARPS % SPLIT == 0, "the block has too few warps for this many features");
constexpr int PART = (FEATURES + SPLIT - 1) / SPLIT, TEAMS = WARPS / SPLIT;
// Groups of four points that a thread has in flight at once, limited by its registers.
constexpr int GROUPS = PART + 1 >= FEATURES_PER_THREAD ? 1 : FEATURES_PER_THREAD / (PART + 1);
// The values that a block adds up: the gradient of each weight, then the gradient of b, then the loss.
constexpr int OF_B = FEATURES, OF_LOSS = FEATURES + 1, VALUES = FEATURES + 2;
static_assert(VALUES <= THREADS, "a thread for each sum");
constexpr int SCATTERED = power_of_two_from(PART);
static_assert(SCATTERED <= WARP, "the sums of a warp are scattered over its lanes");

__device__ __forceinline__ float4 fma4(float a, float4 v, float4 c) {
    return make_float4(fmaf(a, v.x, c.x), fmaf(a, v.y, c.y), fmaf(a, v.z, c.z), fmaf(a, v.w, c.w));
}
__device__ __forceinline__ float dot4(float4 a, float4 v, float c) {
    return fmaf(a.w, v.w, fmaf(a.z, v.z, fmaf(a.y, v.y, fmaf(a.x, v.x, c))));
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
descend(const float* __restrict__ x /* [FEATURES][pitch] */, const float* __restrict__ y /* [pitch] */,
        unsigned long long n, unsigned long long pitch, unsigned epochs, unsigned log_every, float learning_rate,
        float inverse_n, float* weights /* [FEATURES + 1]: w, then b */, float* losses /* [epochs / log_every] */,
        unsigned long long* of_blocks /* [FEATURES + 2][blocks] */, unsigned long long* of_all /* [FEATURES + 1] */,
        Control* control, unsigned blocks, unsigned long long limit_ns) {
    __shared__ float4 predictions[2][SPLIT > 1 ? SPLIT : 1][SPLIT > 1 ? TEAMS * GROUPS * WARP : 1];
    __shared__ float of_warps[WARPS][PART + 2];
    // Odd and even epochs alternate, since the owner of a weight reads the old weight while others write the new one.
    __shared__ float w_shared[2][FEATURES + 1];
    __shared__ bool given_up;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, split = warp % SPLIT, team = warp / SPLIT;
    const int first_feature = split * PART;
    const unsigned long long groups = (n + 3) / 4, pitch4 = pitch / 4;
    constexpr int TILE = TEAMS * GROUPS * WARP;  // groups of four points that a block has in flight
    const unsigned parts = (unsigned)((groups + (unsigned long long)gridDim.x * TILE - 1) / ((unsigned long long)gridDim.x * TILE));
    const unsigned base = control->round;
    const float rate = learning_rate * 2.0f * inverse_n;
    const float4* x4 = reinterpret_cast<const float4*>(x) + first_feature * pitch4;
    const float4* y4 = reinterpret_cast<const float4*>(y);

    float4 xs[GROUPS][PART], ys[GROUPS];
    const auto group_of = [&](unsigned part, int g) {
        return ((unsigned long long)part * gridDim.x + blockIdx.x) * TILE + (g * TEAMS + team) * WARP + lane;
    };
    const auto load = [&](unsigned part) {
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            const unsigned long long i = group_of(part, g);
            const bool there = i < groups;
            ys[g] = there ? y4[i] : make_float4(0, 0, 0, 0);
#pragma unroll
            for (int f = 0; f < PART; ++f) {
                xs[g][f] = there && first_feature + f < FEATURES ? x4[f * pitch4 + i] : make_float4(0, 0, 0, 0);
            }
        }
    };
    load(0);
    LossLog log(log_every);
    if (threadIdx.x == 0) given_up = false;
    if (threadIdx.x <= FEATURES) w_shared[0][threadIdx.x] = weights[threadIdx.x];
    __syncthreads();

    for (unsigned epoch = 1; epoch <= epochs; ++epoch) {
        const bool logged = log.next(), backwards = epoch % 2 == 0;
        const float* w_old = w_shared[(epoch - 1) & 1];
        float* w_new = w_shared[epoch & 1];
        float w[PART];
#pragma unroll
        for (int f = 0; f < PART; ++f) w[f] = first_feature + f < FEATURES ? w_old[first_feature + f] : 0.0f;
        const float b = w_old[OF_B];
        float grads[SCATTERED] = {}, tail[2] = {};

        for (unsigned k = 0; k < parts; ++k) {
            const unsigned part = backwards ? parts - 1 - k : k;
            if (k > 0) load(part);
            float4 sums[GROUPS];
#pragma unroll
            for (int g = 0; g < GROUPS; ++g) {
                sums[g] = SPLIT == 1 ? make_float4(b, b, b, b) : make_float4(0, 0, 0, 0);
#pragma unroll
                for (int f = 0; f < PART; ++f) sums[g] = fma4(w[f], xs[g][f], sums[g]);
                if (SPLIT > 1) predictions[k & 1][split][(g * TEAMS + team) * WARP + lane] = sums[g];
            }
            if (SPLIT > 1) __syncthreads();
#pragma unroll
            for (int g = 0; g < GROUPS; ++g) {
                if (SPLIT > 1) {
                    sums[g] = make_float4(b, b, b, b);
#pragma unroll
                    for (int s = 0; s < SPLIT; ++s) {
                        const float4 theirs = predictions[k & 1][s][(g * TEAMS + team) * WARP + lane];
                        sums[g].x += theirs.x, sums[g].y += theirs.y, sums[g].z += theirs.z, sums[g].w += theirs.w;
                    }
                }
                // The error of points past the end is set to zero.
                const unsigned long long i = group_of(part, g) * 4;
                const float4 err = make_float4(i + 0 < n ? sums[g].x - ys[g].x : 0.0f, i + 1 < n ? sums[g].y - ys[g].y : 0.0f,
                                               i + 2 < n ? sums[g].z - ys[g].z : 0.0f, i + 3 < n ? sums[g].w - ys[g].w : 0.0f);
#pragma unroll
                for (int f = 0; f < PART; ++f) grads[f] = dot4(err, xs[g][f], grads[f]);
                tail[0] += (err.x + err.y) + (err.z + err.w);
                tail[1] = dot4(err, err, tail[1]);
            }
        }

        // The next epoch begins with the points that are still in registers.
        const float grad = warp_sum_scattered(grads);
        if (lane % (WARP / SCATTERED) == 0 && lane / (WARP / SCATTERED) < PART) of_warps[warp][lane / (WARP / SCATTERED)] = grad;
        const float last = warp_sum_pair(tail[0], tail[1]);
        if (lane % (WARP / 2) == 0) of_warps[warp][PART + lane / (WARP / 2)] = last;
        __syncthreads();
        if (threadIdx.x < VALUES) {
            // Each weight's gradient comes from the warps that processed its feature; the gradient of b and the loss come from one warp of each team.
            const int value = threadIdx.x, from = value < FEATURES ? value / PART : 0;
            const int column = value < FEATURES ? value % PART : PART + (value - FEATURES);
            float sum = 0.0f;
            for (int t = 0; t < TEAMS; ++t) sum += of_warps[t * SPLIT + from][column];
            if (value != OF_LOSS || logged) store_word(of_blocks + (size_t)value * blocks + blockIdx.x, make_word(sum, base + epoch));
        }
        // Each sum has an owner, one warp of the grid, which updates its weight and sends the new value to all blocks.
        bool arrived = true;
        for (unsigned value = blockIdx.x + warp * gridDim.x; value < VALUES; value += WARPS * gridDim.x) {
            if (value == OF_LOSS && !logged) continue;
            float sum[1] = {0.0f};
            Patience patience;
            for (unsigned block = lane; block < blocks && arrived; block += WARP) {
                unsigned long long word;
                do {
                    word = load_word(of_blocks + (size_t)value * blocks + block);
                    arrived = word_round(word) == base + epoch;
                } while (!arrived && !patience.ended(limit_ns));
                sum[0] += word_value(word);
            }
            if (__any_sync(ALL_LANES, !arrived)) {
                arrived = false;
                break;
            }
            warp_sum(sum);
            if (lane == 0 && value == OF_LOSS) losses[log.entries - 1] = sum[0] * inverse_n;
            if (lane == 0 && value != OF_LOSS) store_word(of_all + value, make_word(w_old[value] - rate * sum[0], base + epoch));
        }
        if (threadIdx.x <= FEATURES && arrived) {
            Patience patience;
            unsigned long long word;
            do {
                word = load_word(of_all + threadIdx.x);
                arrived = word_round(word) == base + epoch;
            } while (!arrived && !patience.ended(limit_ns));
            w_new[threadIdx.x] = word_value(word);
        }
        if (!arrived) {
            given_up = true;
            atomicCAS(&control->failed, 0u, epoch);
        }
        __syncthreads();
        if (given_up) return;
    }
    if (blockIdx.x == 0) {
        if (threadIdx.x <= FEATURES) weights[threadIdx.x] = w_shared[epochs & 1][threadIdx.x];
        if (threadIdx.x == 0) control->round = base + epochs;
    }
}
