// Computes one step of all parameters, with one function per rule, for the kernels of optimizer.cu and optimizer_last_block.cu.
#pragma once
#include "nn/elements.cuh"
#include "nn/step.cuh"

// A tag for overloads: the array has elements of type IN, which may also be float.
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

// Four consecutive elements of an array of type f32 or IN. Elements past the end of the array are not accessed.
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

// The gradients of all parameters: f32 up to element `split`, then type IN, as the matrix products rounded them.
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

// Calls work(at) for this thread's groups of four elements, among the block's THREADS * ITEMS elements. Many short blocks balance the load:
// with only as many blocks as fit on the device, some would end long before others, because SMs do not share the bandwidth equally.
template <class Work> __device__ __forceinline__ void each_four(size_t n, Work work) {
    static_assert(ITEMS % 4 == 0, "whole groups");
#pragma unroll
    for (int i = 0; i < ITEMS / 4; ++i) {
        const size_t at = (size_t)blockIdx.x * THREADS * ITEMS + ((size_t)i * THREADS + threadIdx.x) * 4;
        if (at < n) work(at);
    }
}

// Returns the gradient with weight decay: g + decay w.
__device__ __forceinline__ float decayed(float g, float w, const Step& s) { return __fadd_rn(g, __fmul_rn(s.decay, w)); }

__device__ __forceinline__ void update_sgd(const Step* step /* [1] */, float* weights /* [n] */, const float* gradients /* [split] */,
                                           const In* rounded /* [n - split] or null */, size_t split, In* copy /* [n] or null */, size_t n) {
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

__device__ __forceinline__ void update_sgd_momentum(const Settings& settings, const Step* step /* [1] */, float* weights /* [n] */,
                                                    const float* gradients /* [split] */, const In* rounded /* [n - split] or null */,
                                                    size_t split, float* momentum /* [n] */, In* copy /* [n] or null */, size_t n) {
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

__device__ __forceinline__ void update_adam(const Step* step /* [1] */, float* weights /* [n] */, const float* gradients /* [split] */,
                                            const In* rounded /* [n - split] or null */, size_t split, float* first /* [n] */,
                                            float* second /* [n] */, In* copy /* [n] or null */, size_t n) {
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
