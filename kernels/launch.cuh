// Programmatic dependent launch: PTX ISA, section "Parallel Synchronization and Communication Instructions: griddepcontrol".
#pragma once

// Since Hopper a kernel may be launched before its predecessor has ended. wait_for_predecessor() is where results of the
// predecessor are first needed; let_successor_start() lets the next kernel take up what room there is. Launched the ordinary
// way, both do nothing. A kernel that fills its SMs says so after its last loads: blocks that are placed one by one, as SMs
// become free, are not next to their neighbours in the grid, and no longer share lines on their way from L2.
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
