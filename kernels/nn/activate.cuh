// The part of an epilogue that follows the sum: a bias and a ReLU.
#pragma once
#include "matmul/gemm.cuh"

// The lower bound of all results: 0 with ReLU, otherwise -infinity.
__device__ __forceinline__ float least_of(unsigned relu) { return relu ? 0.0f : __int_as_float(0xff800000); }

// fmaxf would turn a NaN into 0.
__device__ __forceinline__ float activate(float v, float add, float least) {
    v += add;
    return v < least ? least : v;
}
