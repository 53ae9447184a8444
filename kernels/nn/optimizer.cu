// Idea: all parameters lie in one array, so one launch updates them; what changes from step to step is read from device memory.
// Formula: as crates/warpbook-nn/src/ops/optimizer/mod.rs has it; weights, state f32 [n], gradients f32 [split], then IN [n - split].
// Since the last rung: not a rung; the update, the norm for clipping and the check for infinities and NaN before it.
// Needs: any n and alignment; split a multiple of 4, or n; control f64 [2] (learning rate, steps done); copy of type IN [n] or null.
// Expect: DRAM bandwidth, 12 bytes a weight for SGD and 28 for Adam; single roundings, so the bits are those of the CPU.
#include "launch.cuh"
#include "nn/elements.cuh"
#include "nn/sums.cuh"

#define METHOD_SGD 0
#define METHOD_ADAM 1

// Settings that never change.
struct Settings {
    double momentum_or_beta1, beta2, epsilon, decay;
    unsigned method, nesterov, decoupled, unused;
};

// The numbers of one step, f32 as PyTorch multiplies by them; written by prepare.
struct Step {
    float gradient;  // what a gradient is multiplied by first: clipping and the inverse of the loss scale
    float rate, momentum, decay;
    float size, root, first, keep_second, second, epsilon, shrink;
    unsigned is_first, skip;
};

extern "C" __global__ void __launch_bounds__(THREADS)
prepare(Settings s, double* __restrict__ control /* [2] */, const unsigned* __restrict__ found /* [1] or null */,
        const float* __restrict__ loss_scale /* [1] or null */, const float* __restrict__ clip /* [1] or null */,
        Step* __restrict__ step /* [1] */) {
    wait_for_predecessor();
    let_successor_start();
    if (threadIdx.x != 0) return;
    if (found && *found) {
        // A step that is skipped does not count.
        step->skip = 1;
        return;
    }
    const double rate = control[0], count = control[1] + 1.0;
    control[1] = count;
    Step to = {};
    to.gradient = __fdiv_rn(clip ? *clip : 1.0f, loss_scale ? *loss_scale : 1.0f);
    to.rate = (float)rate;
    to.momentum = (float)s.momentum_or_beta1;
    to.decay = s.decoupled ? 0.0f : (float)s.decay;
    to.shrink = s.decoupled ? (float)__dadd_rn(1.0, -__dmul_rn(rate, s.decay)) : 1.0f;
    to.is_first = count == 1.0;
    if (s.method == METHOD_ADAM) {
        to.size = (float)(rate / (1.0 - pow(s.momentum_or_beta1, count)));
        to.root = (float)sqrt(1.0 - pow(s.beta2, count));
        to.first = (float)(1.0 - s.momentum_or_beta1);
        to.keep_second = (float)s.beta2;
        to.second = (float)(1.0 - s.beta2);
        to.epsilon = (float)s.epsilon;
    }
    *step = to;
}

// Says that an array is of type IN, which may be float too.
struct Rounded {};

__device__ __forceinline__ void load_four(const float* from, float* v /* [4] */) {
    const float4 word = *reinterpret_cast<const float4*>(from);
    v[0] = word.x, v[1] = word.y, v[2] = word.z, v[3] = word.w;
}
template <class T> __device__ __forceinline__ void load_four(const T* from, float* v /* [4] */) {
    const uint2 word = *reinterpret_cast<const uint2*>(from);
    v[0] = to_float(T{(unsigned short)word.x});
    v[1] = to_float(T{(unsigned short)(word.x >> 16)});
    v[2] = to_float(T{(unsigned short)word.y});
    v[3] = to_float(T{(unsigned short)(word.y >> 16)});
}

// Four consecutive elements of an f32 array, and of one of type IN; none past the end.
struct Four {
    float v[4];

    __device__ __forceinline__ static Four load(const float* from /* [n] */, size_t at, size_t n, bool grouped) {
        Four f;
        if (grouped && n - at >= 4) {
            const float4 word = *reinterpret_cast<const float4*>(from + at);
            f = {{word.x, word.y, word.z, word.w}};
        } else {
#pragma unroll
            for (int k = 0; k < 4; ++k) f.v[k] = at + k < n ? from[at + k] : 0.0f;
        }
        return f;
    }

    __device__ __forceinline__ static Four load(const In* from /* [n] */, size_t at, size_t n, bool grouped, Rounded) {
        Four f;
        if (grouped && n - at >= 4) {
            load_four(from + at, f.v);
        } else {
#pragma unroll
            for (int k = 0; k < 4; ++k) f.v[k] = at + k < n ? to_float(from[at + k]) : 0.0f;
        }
        return f;
    }

    __device__ __forceinline__ void store(float* to /* [n] */, size_t at, size_t n, bool grouped) const {
        if (grouped && n - at >= 4) {
            *reinterpret_cast<float4*>(to + at) = make_float4(v[0], v[1], v[2], v[3]);
        } else {
#pragma unroll
            for (int k = 0; k < 4; ++k)
                if (at + k < n) to[at + k] = v[k];
        }
    }

    __device__ __forceinline__ void store_copy(In* to /* [n] */, size_t at, size_t n, bool grouped) const {
        if (grouped && n - at >= 4) {
            store_word(to + at, v[0], v[1]);
            store_word(to + at + 2, v[2], v[3]);
        } else {
#pragma unroll
            for (int k = 0; k < 4; ++k)
                if (at + k < n) to[at + k] = from_float<In>(v[k]);
        }
    }
};

// The gradients of all parameters: in f32 up to `split`, then rounded as their products gave them.
struct Gradients {
    const float* exact /* [split] */;
    const In* rounded /* [n - split] or null */;
    size_t split, n;
    bool grouped, grouped_rounded;

    __device__ __forceinline__ Gradients(const float* exact, const In* rounded, size_t split, size_t n)
        : exact(exact), rounded(rounded), split(split), n(n), grouped(in_groups(exact)), grouped_rounded(in_groups(rounded)) {}

    __device__ __forceinline__ Four load(size_t at) const {
        if (at < split) return Four::load(exact, at, split, grouped);
        return Four::load(rounded, at - split, n - split, grouped_rounded, Rounded{});
    }
};

// Calls work(at) for this thread's groups of four elements.
template <class Work> __device__ __forceinline__ void each_four(size_t n, Work work) {
    const size_t stride = (size_t)gridDim.x * THREADS * 4;
    for (size_t at = ((size_t)blockIdx.x * THREADS + threadIdx.x) * 4; at < n; at += stride) work(at);
}

// g += decay w
__device__ __forceinline__ float decayed(float g, float w, const Step& s) { return __fadd_rn(g, __fmul_rn(s.decay, w)); }

extern "C" __global__ void __launch_bounds__(THREADS)
sgd(Settings, const Step* __restrict__ step /* [1] */, float* __restrict__ weights /* [n] */,
    const float* __restrict__ gradients /* [split] */, const In* __restrict__ rounded /* [n - split] or null */,
    unsigned long long split, In* __restrict__ copy /* [n] or null */, unsigned long long n) {
    wait_for_predecessor();
    let_successor_start();
    const Step s = *step;
    if (s.skip) return;
    const bool grouped = in_groups(weights), copied = in_groups(copy);
    const Gradients all(gradients, rounded, split, n);
    each_four(n, [&](size_t at) {
        Four w = Four::load(weights, at, n, grouped);
        const Four g = all.load(at);
#pragma unroll
        for (int k = 0; k < 4; ++k)
            w.v[k] = __fsub_rn(w.v[k], __fmul_rn(s.rate, decayed(__fmul_rn(g.v[k], s.gradient), w.v[k], s)));
        w.store(weights, at, n, grouped);
        if (copy) w.store_copy(copy, at, n, copied);
    });
}

extern "C" __global__ void __launch_bounds__(THREADS)
sgd_momentum(Settings settings, const Step* __restrict__ step /* [1] */, float* __restrict__ weights /* [n] */,
             const float* __restrict__ gradients /* [split] */, const In* __restrict__ rounded /* [n - split] or null */,
             unsigned long long split, float* __restrict__ momentum /* [n] */, In* __restrict__ copy /* [n] or null */, unsigned long long n) {
    wait_for_predecessor();
    let_successor_start();
    const Step s = *step;
    if (s.skip) return;
    const bool grouped = in_groups(weights) && in_groups(momentum), copied = in_groups(copy);
    const Gradients all(gradients, rounded, split, n);
    each_four(n, [&](size_t at) {
        Four w = Four::load(weights, at, n, grouped), m = Four::load(momentum, at, n, grouped);
        const Four gradient = all.load(at);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const float g = decayed(__fmul_rn(gradient.v[k], s.gradient), w.v[k], s);
            m.v[k] = s.is_first ? g : __fadd_rn(__fmul_rn(s.momentum, m.v[k]), g);
            const float direction = settings.nesterov ? __fadd_rn(g, __fmul_rn(s.momentum, m.v[k])) : m.v[k];
            w.v[k] = __fsub_rn(w.v[k], __fmul_rn(s.rate, direction));
        }
        w.store(weights, at, n, grouped);
        m.store(momentum, at, n, grouped);
        if (copy) w.store_copy(copy, at, n, copied);
    });
}

extern "C" __global__ void __launch_bounds__(THREADS)
adam(Settings, const Step* __restrict__ step /* [1] */, float* __restrict__ weights /* [n] */,
     const float* __restrict__ gradients /* [split] */, const In* __restrict__ rounded /* [n - split] or null */,
     unsigned long long split, float* __restrict__ first /* [n] */, float* __restrict__ second /* [n] */,
     In* __restrict__ copy /* [n] or null */, unsigned long long n) {
    wait_for_predecessor();
    let_successor_start();
    const Step s = *step;
    if (s.skip) return;
    const bool grouped = in_groups(weights) && in_groups(first) && in_groups(second);
    const bool copied = in_groups(copy);
    const Gradients all(gradients, rounded, split, n);
    each_four(n, [&](size_t at) {
        Four w = Four::load(weights, at, n, grouped);
        Four m = Four::load(first, at, n, grouped), v = Four::load(second, at, n, grouped);
        const Four gradient = all.load(at);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            w.v[k] = __fmul_rn(w.v[k], s.shrink);
            const float g = decayed(__fmul_rn(gradient.v[k], s.gradient), w.v[k], s);
            m.v[k] = __fadd_rn(m.v[k], __fmul_rn(s.first, __fsub_rn(g, m.v[k])));
            v.v[k] = __fadd_rn(__fmul_rn(s.keep_second, v.v[k]), __fmul_rn(s.second, __fmul_rn(g, g)));
            const float divisor = __fadd_rn(__fdiv_rn(__fsqrt_rn(v.v[k]), s.root), s.epsilon);
            w.v[k] = __fsub_rn(w.v[k], __fmul_rn(s.size, __fdiv_rn(m.v[k], divisor)));
        }
        w.store(weights, at, n, grouped);
        m.store(first, at, n, grouped);
        v.store(second, at, n, grouped);
        if (copy) w.store_copy(copy, at, n, copied);
    });
}
