// Programmatic dependent launch: see the PTX ISA, section "Parallel Synchronization and Communication Instructions: griddepcontrol".
#pragma once

// Since Hopper a kernel may be launched before its predecessor has ended. Call wait_for_predecessor() before results of the
// predecessor are first needed. A call of let_successor_start() lets the next kernel use free SMs. After an ordinary launch both functions do
// nothing. A kernel that fills its SMs calls let_successor_start() after its last loads: blocks that are placed one by one,
// as SMs become free, are not next to their neighbours in the grid, and no longer share lines on their way from L2.
__device__ __forceinline__ void wait_for_predecessor() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void let_successor_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
